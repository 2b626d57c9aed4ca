//! What other sources choose containers by (image, command, ports, names), out of inspect. Pure and bounded.

use std::collections::BTreeMap;

use serde_json::Value;

use super::bounds::{ITEMS, bounded};
use crate::roster::Traits;

/// The traits in the answer of `GET /containers/ID/json`. `labels` and `serves` are what was read off it already.
#[must_use]
pub fn traits(v: &Value, labels: &BTreeMap<String, String>, serves: bool) -> Traits {
    let config = v.get("Config").unwrap_or(&Value::Null);
    let words = ["Entrypoint", "Cmd"].into_iter().flat_map(|key| words(config.get(key)));
    let command: Vec<&str> = words.take(ITEMS).collect();
    Traits {
        image: config.get("Image").and_then(Value::as_str).map(bounded).unwrap_or_default(),
        command: bounded(&command.join(" ")),
        labels: labels.keys().cloned().collect(),
        published: published(v),
        names: names(v),
        serves,
    }
}

/// A list of words, or one text.
fn words(v: Option<&Value>) -> impl Iterator<Item = &str> {
    let list = v.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    list.chain(v.and_then(Value::as_str))
}

fn published(v: &Value) -> Vec<u16> {
    let ports = v.pointer("/NetworkSettings/Ports").and_then(Value::as_object);
    let bindings = ports.into_iter().flat_map(|p| p.values()).filter_map(Value::as_array).flatten();
    let mut ports: Vec<u16> =
        bindings.filter_map(|b| b.get("HostPort")?.as_str()?.parse().ok()).take(ITEMS).collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// The names by which others on its networks resolve it: its own, and its aliases there (a compose service is one).
fn names(v: &Value) -> Vec<String> {
    let own = v.get("Name").and_then(Value::as_str).map(|n| n.trim_start_matches('/'));
    let networks = v.pointer("/NetworkSettings/Networks").and_then(Value::as_object);
    let aliases = networks.into_iter().flat_map(|n| n.values()).flat_map(|network| {
        let lists = ["Aliases", "DNSNames"].into_iter().filter_map(|key| network.get(key)?.as_array());
        lists.flatten().filter_map(Value::as_str)
    });
    let mut names: Vec<String> =
        own.into_iter().chain(aliases).take(ITEMS).map(bounded).filter(|n| !n.is_empty()).collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_others_choose_by() {
        let v = json!({"Name": "/shop-proxy-1", "Config": {"Image": "nginx:1.27", "Entrypoint": ["/docker-entrypoint.sh"], "Cmd": ["nginx", "-g"]},
            "NetworkSettings": {"Ports": {"80/tcp": [{"HostIp": "0.0.0.0", "HostPort": "8080"}, {"HostIp": "::", "HostPort": "8080"}], "443/tcp": null},
                "Networks": {"front": {"Aliases": ["proxy", "0123456789ab"]}, "back": {"Aliases": null, "DNSNames": ["shop-proxy-1", "proxy"]}}}});
        let labels = BTreeMap::from([("a".to_string(), "b".to_string())]);
        assert_eq!(
            traits(&v, &labels, true),
            Traits {
                image: "nginx:1.27".into(),
                command: "/docker-entrypoint.sh nginx -g".into(),
                labels: vec!["a".into()],
                published: vec![8080],
                names: vec!["0123456789ab".into(), "proxy".into(), "shop-proxy-1".into()],
                serves: true,
            }
        );
    }

    #[test]
    fn fields_that_are_missing_or_of_another_type() {
        for v in [
            json!(null),
            json!([]),
            json!({"Config": {"Cmd": 7, "Entrypoint": "sh -c x"}, "Name": 3, "NetworkSettings": {"Networks": [], "Ports": 1}}),
        ] {
            let t = traits(&v, &BTreeMap::new(), false);
            assert!(t.names.is_empty() && t.published.is_empty() && t.image.is_empty());
        }
    }

    #[test]
    fn hostile_lengths_are_cut() {
        let v = json!({"Name": "n".repeat(9999), "Config": {"Image": "i".repeat(9999), "Cmd": vec!["w"; 9999]},
            "NetworkSettings": {"Networks": {"n": {"Aliases": (0..9999).map(|n| n.to_string()).collect::<Vec<_>>()}}}});
        let t = traits(&v, &BTreeMap::new(), false);
        assert!(
            t.names.len() <= ITEMS
                && t.names.iter().all(|n| n.len() <= 256)
                && t.image.len() <= 256
                && t.command.len() <= 256
        );
    }
}
