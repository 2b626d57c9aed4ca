//! Whose process it was: a cgroup path becomes a container, pod, allocation or unit, and with the roster a subject. The
//! first part is pure; the second waits a moment for a runtime that is slower than the kernel.

use std::borrow::Cow;
use std::time::Duration;

use crate::roster::{Container, Roster};

/// Who made a container, as far as a path tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// Docker, or a bare id of its form.
    Docker,
    /// Podman and CRI-O's libpod.
    Podman,
    /// A container of a Kubernetes pod, whichever runtime.
    Kubernetes,
}

/// Where a process lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A container.
    Container {
        /// Who made it.
        runtime: Runtime,
        /// Its full id, 64 hex digits.
        id: String,
        /// The pod that it belongs to.
        pod: Option<String>,
    },
    /// A pod, of which the container is not told.
    Pod(String),
    /// An allocation of Nomad, and the task where it is told.
    Nomad {
        /// Its id, 36 characters.
        alloc: String,
        /// The task.
        task: Option<String>,
    },
    /// A system container of LXC, by name.
    Lxc(String),
    /// A unit of systemd.
    Unit(String),
    /// None of them.
    Nowhere,
}

/// Reads a cgroup path. The innermost container wins: one path can hold several.
#[must_use]
pub fn place(path: &str) -> Place {
    let parts: Vec<Cow<'_, str>> =
        path.split('/').filter(|p| !p.is_empty() && *p != "..").map(unescape).collect();
    let mut pod = None;
    let mut nomad_below = false;
    let mut found = Place::Nowhere;
    for part in &parts {
        let name = part.strip_suffix(".scope").or(part.strip_suffix(".slice")).unwrap_or(part);
        if let Some(uid) = pod_uid(part) {
            found = Place::Pod(uid.clone());
            pod = Some(uid);
        } else if let Some((runtime, id)) = container_id(name) {
            let runtime = if pod.is_some() { Runtime::Kubernetes } else { runtime };
            found = Place::Container { runtime, id, pod: pod.clone() };
        } else if part == "nomad" || part == "nomad.slice" {
            nomad_below = true;
        } else if let Some((alloc, task)) = alloc_id(name)
            && nomad_below
        {
            found = Place::Nomad { alloc, task };
        } else if let Some(name) = part.strip_prefix("lxc.payload.") {
            (found, pod, nomad_below) = (Place::Lxc(bounded(name)), None, false);
        }
    }
    if found == Place::Nowhere
        && let Some(i) = parts.iter().position(|p| p == "lxc")
        && let Some(name) = parts.get(i + 1)
    {
        found = Place::Lxc(bounded(name));
    }
    if found != Place::Nowhere {
        return found;
    }
    let unit =
        |suffix: &str| path.split('/').rfind(|p| p.ends_with(suffix) && p.len() > suffix.len()).map(bounded);
    unit(".service").or_else(|| unit(".scope")).or_else(|| unit(".slice")).map_or(Place::Nowhere, Place::Unit)
}

/// systemd writes `-` inside a name as `\x2d`, and other bytes alike.
fn unescape(part: &str) -> Cow<'_, str> {
    if !part.contains(r"\x") {
        return Cow::Borrowed(part);
    }
    let mut out = String::with_capacity(part.len());
    let mut rest = part;
    while let Some(i) = rest.find(r"\x") {
        let (head, tail) = rest.split_at(i);
        out.push_str(head);
        match tail.get(2..4).and_then(|h| u8::from_str_radix(h, 16).ok()).filter(u8::is_ascii) {
            Some(byte) => {
                out.push(char::from(byte));
                rest = tail.get(4..).unwrap_or_default();
            }
            None => {
                out.push_str(r"\x");
                rest = tail.get(2..).unwrap_or_default();
            }
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

fn bounded(name: impl AsRef<str>) -> String {
    name.as_ref().chars().take(256).collect()
}

fn is_hex(text: &str, len: usize) -> bool {
    text.len() == len && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// `<64 hex>`, alone or after `docker-`, `cri-containerd-`, `crio-`, `libpod-` and their like. The monitor process
/// (`crio-conmon-…`, `libpod-conmon-…`) lives beside the container and is none.
fn container_id(name: &str) -> Option<(Runtime, String)> {
    // containerd without the systemd driver can write `cri-containerd:<id>` and `…:cri-containerd:<id>`.
    let (prefix, id) = match name.rfind(['-', ':']) {
        Some(i) => (name.get(..i)?, name.get(i + 1..)?),
        None => ("", name),
    };
    if !is_hex(id, 64) || prefix.ends_with("conmon") {
        return None;
    }
    let runtime = if prefix.starts_with("libpod") {
        Runtime::Podman
    } else if prefix.starts_with("cri") {
        Runtime::Kubernetes
    } else {
        Runtime::Docker
    };
    Some((runtime, id.to_ascii_lowercase()))
}

/// `pod<uid>`, `kubepods-burstable-pod<uid with _>.slice`.
fn pod_uid(part: &str) -> Option<String> {
    let name = part.strip_suffix(".slice").unwrap_or(part);
    let uid = match name.strip_prefix("pod") {
        Some(uid) => uid,
        None if name.starts_with("kube") => name.get(name.rfind("-pod")? + 4..)?,
        None => return None,
    };
    let uid = uid.replace('_', "-").to_ascii_lowercase();
    (is_uuid(&uid) || is_hex(&uid, 32)).then_some(uid)
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text
            .bytes()
            .enumerate()
            .all(|(i, b)| if matches!(i, 8 | 13 | 18 | 23) { b == b'-' } else { b.is_ascii_hexdigit() })
}

/// `<36-character alloc id>`, `<alloc>.<task>`, `<alloc>-<task>`.
fn alloc_id(name: &str) -> Option<(String, Option<String>)> {
    let alloc = name.get(..36).filter(|a| is_uuid(a))?;
    let rest = name.get(36..)?;
    let task = rest.strip_prefix(['.', '-', '/']);
    if task.is_none() && !rest.is_empty() {
        return None;
    }
    Some((alloc.to_string(), task.filter(|t| !t.is_empty()).map(bounded)))
}

/// The subject, as far as the path alone tells it, and whether the roster could tell it better.
#[must_use]
pub fn subject_of(place: &Place) -> String {
    let short = |id: &str| id.get(..12).unwrap_or(id).to_string();
    match place {
        Place::Container { pod: Some(pod), id, .. } => format!("k8s:{pod}/{}", short(id)),
        Place::Container { runtime: Runtime::Podman, id, .. } => format!("podman:{}", short(id)),
        Place::Container { runtime: Runtime::Kubernetes, id, .. } => format!("k8s:{}", short(id)),
        Place::Container { id, .. } => format!("docker:{}", short(id)),
        Place::Pod(uid) => format!("k8s:{uid}"),
        Place::Nomad { alloc, task: Some(task) } => format!("nomad:{alloc}/{task}"),
        Place::Nomad { alloc, task: None } => format!("nomad:{alloc}"),
        Place::Lxc(name) => format!("lxc:{name}"),
        Place::Unit(unit) => format!("systemd:{unit}"),
        Place::Nowhere => "host:".into(),
    }
}

/// The subject of a place: the roster's where it knows the container, waiting at most `patience` for it to be entered.
pub async fn subject(place: &Place, roster: &Roster, patience: Duration) -> String {
    let Place::Container { id, .. } = place else { return subject_of(place) };
    match known(id, roster, patience).await {
        Some(container) => container.subject.to_string(),
        None => subject_of(place),
    }
}

async fn known(id: &str, roster: &Roster, patience: Duration) -> Option<Container> {
    let mut changes = roster.subscribe();
    if let Some(c) = roster.by_prefix(id) {
        return Some(c);
    }
    let wait = async {
        loop {
            match changes.recv().await {
                Err(tokio::sync::broadcast::error::RecvError::Closed) => return None,
                // A change, or many: look again.
                _ => {
                    if let Some(c) = roster.by_prefix(id) {
                        return Some(c);
                    }
                }
            }
        }
    };
    tokio::time::timeout(patience, wait).await.ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "00748bf4e957f82c239a1db8a88579059b7d40c7b5fbd3f43617d31d3f646f12";
    const B: &str = "22c42cc6756374dca72fbe200f12a9e75b2499c10b648ef764ccb1d4a666347d";
    const U: &str = "0a1b2c3d-0000-4111-8222-abcdefabcdef";

    #[test]
    fn paths_of_many_runtimes() {
        let u_ = U.replace('-', "_");
        let table = [
            (format!("/docker/{A}"), format!("docker:{}", &A[..12])),
            (format!("/docker/{A}/init.scope"), format!("docker:{}", &A[..12])),
            (format!("/docker/{A}/system.slice/nginx.service"), format!("docker:{}", &A[..12])),
            (format!("/system.slice/docker-{A}.scope"), format!("docker:{}", &A[..12])),
            (format!("/system.slice/docker-{A}.scope/init.scope"), format!("docker:{}", &A[..12])),
            (format!("/system.slice/docker\\x2d{A}.scope"), format!("docker:{}", &A[..12])),
            (
                format!("/user.slice/user-1000.slice/user@1000.service/user.slice/docker-{A}.scope"),
                format!("docker:{}", &A[..12]),
            ),
            (format!("/docker/{B}/docker/{A}"), format!("docker:{}", &A[..12])),
            (format!("/docker/{B}/kubelet/kubepods/burstable/pod{U}/{A}"), format!("k8s:{U}/{}", &A[..12])),
            (format!("/kubepods/burstable/pod{U}/{A}"), format!("k8s:{U}/{}", &A[..12])),
            (format!("/kubepods/burstable/pod{U}"), format!("k8s:{U}")),
            (
                format!(
                    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{u_}.slice/cri-containerd-{A}.scope"
                ),
                format!("k8s:{U}/{}", &A[..12]),
            ),
            (
                format!("/kubepods.slice/kubepods-pod{u_}.slice/crio-{A}.scope/container"),
                format!("k8s:{U}/{}", &A[..12]),
            ),
            (
                format!("/kubepods.slice/kubepods-pod{u_}.slice/docker-{A}.scope"),
                format!("k8s:{U}/{}", &A[..12]),
            ),
            (format!("/kubepods.slice/kubepods-pod{u_}.slice/crio-conmon-{A}.scope"), format!("k8s:{U}")),
            (
                format!(
                    "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{}.slice/crio-{A}.scope",
                    &B[..32]
                ),
                format!("k8s:{}/{}", &B[..32], &A[..12]),
            ),
            (
                format!(
                    "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{u_}.slice/cri-containerd-{A}.scope"
                ),
                format!("k8s:{U}/{}", &A[..12]),
            ),
            (format!("/machine.slice/libpod-{A}.scope"), format!("podman:{}", &A[..12])),
            (format!("/machine.slice/libpod-{A}.scope/container"), format!("podman:{}", &A[..12])),
            (format!("/machine.slice/libpod-conmon-{A}.scope"), format!("systemd:libpod-conmon-{A}.scope")),
            (format!("/libpod_parent/libpod-{A}"), format!("podman:{}", &A[..12])),
            (format!("/nomad/{U}"), format!("nomad:{U}")),
            (format!("/nomad.slice/share.slice/{U}.web.scope"), format!("nomad:{U}/web")),
            (format!("/nomad.slice/{U}.web.scope"), format!("nomad:{U}/web")),
            (format!("/lxc.payload.box/docker/{A}"), format!("docker:{}", &A[..12])),
            (format!("/lxc/101/ns/system.slice/docker-{A}.scope"), format!("docker:{}", &A[..12])),
            ("/lxc.payload.box/system.slice/cron.service".into(), "lxc:box".into()),
            ("/lxc/101/ns/init.scope".into(), "lxc:101".into()),
            ("/system.slice/nginx.service".into(), "systemd:nginx.service".into()),
            ("/system.slice/nginx.service/worker".into(), "systemd:nginx.service".into()),
            (
                r"/system.slice/system-getty.slice/my\x2dapp.service".into(),
                r"systemd:my\x2dapp.service".into(),
            ),
            ("/user.slice/user-1000.slice/session-4.scope".into(), "systemd:session-4.scope".into()),
            ("/user.slice".into(), "systemd:user.slice".into()),
            (format!("/ecs/0f0f/{A}"), format!("docker:{}", &A[..12])),
            ("/".into(), "host:".into()),
            (String::new(), "host:".into()),
            ("/aegis".into(), "host:".into()),
        ];
        for (path, want) in table {
            assert_eq!(subject_of(&place(&path)), want, "{path}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_roster_knows_better_and_may_come_late() {
        let roster = std::sync::Arc::new(Roster::default());
        let p = place(&format!("/docker/{A}"));
        assert_eq!(subject(&p, &roster, Duration::from_millis(10)).await, "docker:00748bf4e957");
        let late = roster.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let c = Container { id: A.into(), subject: "docker:web".into(), ..Container::default() };
            late.put(c, crate::roster::Change::Described);
        });
        assert_eq!(subject(&p, &roster, Duration::from_secs(1)).await, "docker:web");
    }

    proptest::proptest! {
        #[test]
        fn any_path_has_a_place(path in r"(/[a-zé\\x0-9._:-]{0,70}){0,6}") {
            let subject = subject_of(&place(&path));
            proptest::prop_assert!(subject.contains(':') && subject.chars().count() < 700);
        }
    }
}
