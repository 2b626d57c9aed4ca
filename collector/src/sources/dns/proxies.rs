//! Which containers look like proxies: those whose failing lookups are watched without being asked to. Pure; judged by what the
//! runtime says of them alone. Wrong either way costs little: people name what is missing, or skip what is too much.

use crate::roster::{Container, Network};
use crate::source::NameSettings;

/// Programs that stand in front of others.
const PROXIES: [&str; 17] = [
    "nginx",
    "openresty",
    "tengine",
    "haproxy",
    "traefik",
    "caddy",
    "envoy",
    "pingora",
    "apisix",
    "kong",
    "varnish",
    "squid",
    "httpd",
    "apache",
    "linkerd",
    "istio",
    "proxy",
];
/// What has a proxy's name and is none.
const NOT: [&str; 3] = ["exporter", "companion", "acme"];
/// Keys of labels by which a container says that it is a proxy, or what it serves.
const LABELS: [&str; 2] = ["linchpin.hostnames", "linchpin.upstreams"];
/// Ports on which the world calls.
const PORTS: [u16; 2] = [80, 443];

/// Whether the container's lookups are watched. What has no network, or the host's, can not be: whose lookup it was would not be known.
#[must_use]
pub fn watched(c: &Container, settings: &NameSettings) -> bool {
    let named = |list: &[String]| list.iter().any(|n| n == "*" || **n == *c.name || **n == *c.subject);
    if matches!(c.network, Network::Host | Network::None) {
        return false;
    }
    !named(&settings.skip)
        && (named(&settings.watch) || looks_like_proxy(c) || settings.canary.contains_key(&*c.name))
}

/// As [`watched`], for what a container writes: its network does not matter there.
#[must_use]
pub fn read(c: &Container, settings: &NameSettings) -> bool {
    let as_if = Container { network: Network::Own, ..c.clone() };
    watched(&as_if, settings)
}

/// By image, command, labels, published ports, and what is described of it.
#[must_use]
pub fn looks_like_proxy(c: &Container) -> bool {
    let t = &c.traits;
    let image = t.image.rsplit('/').next().unwrap_or_default().split(['@', ':']).next().unwrap_or_default();
    let program =
        t.command.split_whitespace().take(4).map(|word| word.rsplit('/').next().unwrap_or_default());
    t.serves
        || named_like(image)
        || program.into_iter().any(named_like)
        || t.labels.iter().any(|l| LABELS.contains(&l.as_str()))
        || t.published.iter().any(|p| PORTS.contains(p))
}

/// Whether a proxy is among the words of a name such as `my-nginx_1.27`.
fn named_like(name: &str) -> bool {
    let words = || name.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_ascii_lowercase);
    words().any(|w| PROXIES.contains(&w.trim_end_matches(|c: char| c.is_ascii_digit())))
        && !words().any(|w| NOT.contains(&w.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roster::Traits;

    fn with(change: impl FnOnce(&mut Traits)) -> Container {
        let mut traits = Traits {
            image: "example.test:5000/team/api:1".into(),
            command: "/srv/api --port 8080".into(),
            ..Traits::default()
        };
        change(&mut traits);
        Container {
            name: "c".into(),
            subject: "docker:p/c/1".into(),
            traits: traits.into(),
            ..Container::default()
        }
    }

    #[test]
    fn proxies_and_others() {
        type Change = fn(&mut Traits);
        let cases: [(&str, bool, Change); 16] = [
            ("an api", false, |_| ()),
            ("nginx", true, |t| t.image = "nginx".into()),
            ("nginx by digest", true, |t| t.image = "nginx@sha256:00".into()),
            ("nginx-proxy", true, |t| t.image = "nginxproxy/nginx-proxy:alpine".into()),
            ("its companion", false, |t| t.image = "nginxproxy/acme-companion".into()),
            ("an exporter", false, |t| t.image = "nginx/nginx-prometheus-exporter:1.3".into()),
            ("traefik behind a registry with a port", true, |t| {
                t.image = "example.test:5000/infra/traefik:v3".into()
            }),
            ("caddy2", true, |t| t.image = "caddy2".into()),
            ("a registry named nginx", false, |t| t.image = "nginx.example.test/api:1".into()),
            ("haproxy by its command", true, |t| {
                t.command = "/usr/local/sbin/haproxy -W -db -f /etc/haproxy.cfg".into()
            }),
            ("a script that runs envoy", true, |t| {
                t.command = "/entrypoint.sh envoy -c /etc/envoy.yaml".into()
            }),
            ("nginx far behind", false, |t| t.command = "sh -c a b c nginx".into()),
            ("port 443 published", true, |t| t.published = vec![8080, 443]),
            ("port 8080 published", false, |t| t.published = vec![8080]),
            ("hostnames described", true, |t| t.serves = true),
            ("our label", true, |t| t.labels = vec!["a".into(), "linchpin.upstreams".into()]),
        ];
        for (what, expected, change) in cases {
            assert_eq!(looks_like_proxy(&with(change)), expected, "{what}");
        }
    }

    #[test]
    fn people_have_the_last_word() {
        let (api, nginx) = (with(|_| ()), with(|t| t.image = "nginx".into()));
        let set = |watch: &[&str], skip: &[&str]| NameSettings {
            watch: watch.iter().map(ToString::to_string).collect(),
            skip: skip.iter().map(ToString::to_string).collect(),
            ..NameSettings::default()
        };
        assert!(!watched(&api, &set(&[], &[])) && watched(&nginx, &set(&[], &[])));
        assert!(
            watched(&api, &set(&["c"], &[]))
                && watched(&api, &set(&["docker:p/c/1"], &[]))
                && watched(&api, &set(&["*"], &[]))
        );
        assert!(!watched(&nginx, &set(&[], &["c"])) && !watched(&nginx, &set(&["c"], &["*"])));
        let host = Container { network: Network::Host, ..nginx };
        assert!(!watched(&host, &set(&["c"], &[])) && read(&host, &set(&[], &[])));
    }
}
