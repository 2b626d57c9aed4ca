# Linchpin in a container. It watches the host, so it is given the host's process and network view, and nothing to write to
# but its journal:
#
#   docker run -d --name linchpin --restart always --pid host --network host --cgroupns host --read-only \
#     --cap-drop ALL --cap-add SYSLOG --cap-add NET_ADMIN --cap-add SYS_ADMIN --cap-add SYS_PTRACE --cap-add DAC_READ_SEARCH \
#     --cap-add SYS_NICE --security-opt apparmor=unconfined --device /dev/kmsg:/dev/kmsg:r \
#     -v /var/run/docker.sock:/var/run/docker.sock:ro -v /sys/fs/cgroup:/sys/fs/cgroup -v linchpin:/var/lib/linchpin linchpin
#
# The reason for each stands in README.md, "What it needs, and why".
ARG BUILD_IMAGE=rust:1.95-slim-bookworm
ARG RUN_IMAGE=debian:bookworm-slim

FROM ${BUILD_IMAGE} AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked

FROM ${RUN_IMAGE}
COPY --from=build /src/target/release/linchpin /usr/bin/linchpin
VOLUME /var/lib/linchpin
# Loopback of the host (--network host): the report has no log-in.
EXPOSE 7420
HEALTHCHECK --interval=30s --timeout=5s CMD ["linchpin", "doctor"]
ENTRYPOINT ["linchpin"]
CMD ["agent", "--journal", "/var/lib/linchpin"]
