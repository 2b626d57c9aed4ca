//! Which hostnames a container says it serves, by the conventions of the proxies that read them off containers: the
//! environment's `VIRTUAL_HOST` (nginx-proxy), the labels `caddy` (caddy-docker-proxy), `traefik.http.routers.*.rule`
//! with `Host(…)`, and our own `linchpin.hostnames`. Pure. Patterns, wildcards and templates are left out: they name no
//! hostname.

use std::collections::BTreeMap;

use super::bounds::ITEMS;

/// The hostnames that labels and environment name, sorted, each once, in lower case.
#[must_use]
pub fn hostnames<'a>(labels: &BTreeMap<String, String>, env: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut found = Vec::new();
    for (key, value) in labels {
        if key == "linchpin.hostnames" || key == "caddy" || is_caddy_numbered(key) {
            found.extend(value.split([',', ' ']).filter_map(hostname));
        } else if key.starts_with("traefik.http.routers.") && key.ends_with(".rule") {
            found.extend(traefik_hosts(value).filter_map(hostname));
        }
    }
    for entry in env {
        if let Some(value) = entry.strip_prefix("VIRTUAL_HOST=") {
            found.extend(value.split(',').filter_map(hostname));
        }
    }
    found.sort();
    found.dedup();
    found.truncate(ITEMS);
    found
}

/// `caddy_0`, `caddy_1`, …: several sites on one container.
fn is_caddy_numbered(key: &str) -> bool {
    key.strip_prefix("caddy_").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// The quoted names inside each `Host(…)` of a rule. `HostRegexp`, `HostSNI` and `HostHeader` are other words.
fn traefik_hosts(rule: &str) -> impl Iterator<Item = &str> {
    rule.match_indices("Host(")
        .filter_map(|(at, word)| {
            let before = rule[..at].chars().next_back();
            let negated = before == Some('!') || before.is_some_and(char::is_alphanumeric);
            let inside = rule[at + word.len()..].split(')').next()?;
            (!negated).then_some(inside)
        })
        .flat_map(|inside| inside.split(',').map(|n| n.trim().trim_matches(['`', '"', '\''])))
}

/// A plain hostname out of a name that may carry a scheme, a port or a path; none where it is a pattern.
fn hostname(text: &str) -> Option<String> {
    let text = text.trim();
    let text = text.split_once("://").map_or(text, |(_, rest)| rest);
    let text = text.split(['/', ':']).next()?.trim_end_matches('.');
    let label = |l: &str| {
        !l.is_empty()
            && l.len() <= 63
            && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    (text.len() <= 253 && text.split('.').all(label)).then(|| text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(labels: &[(&str, &str)], env: &[&str]) -> Vec<String> {
        let labels = labels.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        hostnames(&labels, env.iter().copied())
    }

    #[test]
    fn each_convention() {
        assert_eq!(
            of(&[], &["PATH=/bin", "VIRTUAL_HOST=a.example.test,B.example.test:8080"]),
            ["a.example.test", "b.example.test"]
        );
        assert_eq!(
            of(
                &[
                    ("caddy", "https://a.example.test, b.example.test/path"),
                    ("caddy_1", "c.example.test"),
                    ("caddy.reverse_proxy", "{{upstreams}}")
                ],
                &[]
            ),
            ["a.example.test", "b.example.test", "c.example.test"]
        );
        assert_eq!(
            of(
                &[(
                    "traefik.http.routers.web.rule",
                    "Host(`a.example.test`, `b.example.test`) && PathPrefix(`/x`) || Host(\"c.example.test\")"
                )],
                &[]
            ),
            ["a.example.test", "b.example.test", "c.example.test"]
        );
        assert_eq!(
            of(&[("linchpin.hostnames", "a.example.test,b.example.test"), ("caddy", "a.example.test")], &[]),
            ["a.example.test", "b.example.test"]
        );
    }

    #[test]
    fn patterns_and_hostile_values_name_nothing() {
        for (key, value) in [
            ("traefik.http.routers.web.rule", "HostRegexp(`{sub:[a-z]+}.example.test`)"),
            ("traefik.http.routers.web.rule", "!Host(`a.example.test`)"),
            ("traefik.http.routers.web.rule", "Host("),
            ("traefik.tcp.routers.web.rule", "HostSNI(`a.example.test`)"),
            ("caddy", "*.example.test"),
            ("caddy", "{$DOMAIN}"),
            ("caddy", ":80"),
            ("linchpin.hostnames", "<script>alert(1)</script>"),
            ("linchpin.hostnames", "ä.example.test,, ,.."),
        ] {
            assert_eq!(of(&[(key, value)], &[]), Vec::<String>::new(), "{key}={value}");
        }
    }
}
