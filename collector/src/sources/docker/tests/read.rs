//! Decoding: events in every shape that engines have given them, inspect's answers, and what is not to be trusted.

use linchpin_data::Timestamp;
use serde_json::{Value, json};

use super::super::bounds::{CHARS, LABELS};
use super::super::decode::{Action, Decoded, decode};
use super::super::inspect::{facts, memory_cgroup};
use super::super::subject::identity;
use crate::roster::Network;

fn action(v: &Value) -> Option<Action> {
    match decode(v) {
        Decoded::Event(e) => Some(e.action),
        _ => None,
    }
}

#[test]
fn every_shape_of_a_death() {
    let fine = Timestamp(1_796_023_151_883_864_647);
    let coarse = Timestamp(1_796_023_151_000_000_000);
    let table = [
        // Docker since 1.10.
        (
            json!({"status": "die", "id": "aa", "from": "i", "Type": "container", "Action": "die",
                "Actor": {"ID": "aa", "Attributes": {"exitCode": "3", "image": "i", "name": "web"}},
                "scope": "local", "time": 1_796_023_151, "timeNano": fine.0}),
            Some(3),
            "web",
            fine,
        ),
        // Docker before: no actor, no code, no nanoseconds.
        (json!({"status": "die", "id": "aa", "from": "i", "time": 1_796_023_151}), None, "", coarse),
        // Podman's own, old: words for times.
        (
            json!({"ID": "aa", "Image": "i", "Name": "web", "Status": "died", "Type": "container",
                "Time": "2026-11-30T07:19:11.883864647Z", "Attributes": {"x": "y"}}),
            None,
            "web",
            fine,
        ),
        // Podman's own, new: numbers, a field of its own for the code.
        (
            json!({"ContainerExitCode": 3, "ID": "aa", "Image": "i", "Name": "web", "Status": "died", "Type": "container",
                "time": 1_796_023_151, "timeNano": fine.0, "Attributes": null}),
            Some(3),
            "web",
            fine,
        ),
        // Podman behind Docker's API.
        (
            json!({"status": "died", "id": "aa", "from": "i", "Type": "container", "Action": "died",
                "Actor": {"ID": "aa", "Attributes": {"containerExitCode": "3", "name": "web"}},
                "scope": "local", "time": 1_796_023_151, "timeNano": fine.0}),
            Some(3),
            "web",
            fine,
        ),
    ];
    for (v, code, name, at) in table {
        let Decoded::Event(e) = decode(&v) else { panic!("{v}") };
        assert_eq!((e.action, &*e.name, e.at, &*e.id), (Action::Die(code), name, at, "aa"), "{v}");
    }
}

#[test]
fn actions_with_payloads() {
    let of =
        |word: &str| action(&json!({"Type": "container", "Action": word, "Actor": {"ID": "aa"}, "time": 1}));
    assert_eq!(of("health_status: unhealthy"), Some(Action::Health(false)));
    assert_eq!(of("health_status: healthy"), Some(Action::Health(true)));
    assert_eq!(of("health_status: starting"), None);
    for other in [
        "exec_create: pg_isready -U app",
        "exec_start: sh -c 'die: kill'",
        "exec_die",
        "attach",
        "top",
        "of_tomorrow",
    ] {
        assert_eq!(of(other), None, "{other}");
    }
    let podman = json!({"Type": "container", "Status": "health_status", "ID": "aa", "time": 1, "HealthStatus": "unhealthy"});
    assert_eq!(action(&podman), Some(Action::Health(false)));
    for (signal, number) in [("15", Some(15)), ("SIGHUP", Some(1)), ("TERM", Some(15)), ("SIGWHAT", None)] {
        let v = json!({"Type": "container", "Action": "kill", "Actor": {"ID": "aa", "Attributes": {"signal": signal}}, "time": 1});
        assert_eq!(action(&v), Some(Action::Kill(number)), "{signal}");
    }
}

#[test]
fn what_is_no_event_of_a_container() {
    for v in [
        json!({"Type": "network", "Action": "connect", "Actor": {"ID": "aa"}, "time": 1}),
        json!({"Type": "pod", "Status": "die", "ID": "aa", "time": 1}),
        json!({"Type": "of_tomorrow", "Action": "die", "Actor": {"ID": "aa"}, "time": 1}),
    ] {
        assert_eq!(decode(&v), Decoded::Other, "{v}");
    }
    for v in [
        json!(null),
        json!([1]),
        json!({}),
        json!({"Type": "container", "Action": "die", "time": 1}),
        json!({"Type": "container", "Action": "die", "Actor": {"ID": "../../etc"}, "time": 1}),
        json!({"Type": "container", "Action": "die", "Actor": {"ID": "aa"}}),
        json!({"Type": "container", "Action": "die", "Actor": {"ID": "aa"}, "time": i64::MAX}),
        json!({"Type": "container", "Action": "die", "Actor": {"ID": "aa"}, "time": "yesterday"}),
    ] {
        assert!(matches!(decode(&v), Decoded::Unreadable(_)), "{v}");
    }
}

#[test]
fn hostile_names_and_labels_are_kept_and_bounded() {
    let hostile = "<script>\u{7}\n=[,]\"";
    let mut attributes = json!({"name": format!("{hostile}{}", "x".repeat(10_000)), "exitCode": "1"});
    for i in 0..1000 {
        attributes[format!("a{i}")] = json!(hostile);
    }
    let v = json!({"Type": "container", "Action": "die", "Actor": {"ID": "aa", "Attributes": attributes}, "time": 1});
    let Decoded::Event(e) = decode(&v) else { panic!() };
    assert_eq!(e.action, Action::Die(Some(1)));
    assert_eq!(e.name.chars().count(), CHARS);
    assert!(e.name.starts_with(hostile));
    assert_eq!(e.attributes.len(), LABELS);
    assert!(e.attributes.values().any(|v| v == hostile));
}

#[test]
fn subjects() {
    let of = |name: &str, labels: &[(&str, &str)]| {
        identity(
            name,
            "0123456789abcdef",
            &labels.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
        )
    };
    let compose = |p, s, n| {
        [
            ("com.docker.compose.project", p),
            ("com.docker.compose.service", s),
            ("com.docker.compose.container-number", n),
        ]
    };
    let web = of("shop-web-2", &compose("shop", "web", "2"));
    assert_eq!(
        (&*web.subject, web.service.as_deref(), web.replica),
        ("docker:shop/web/2", Some("shop/web"), Some(2))
    );
    assert_eq!(&*of("web", &[]).subject, "docker:web");
    assert_eq!(&*of("", &[]).subject, "docker:0123456789ab");
    // A label can not pose as another subject.
    for forged in [
        compose("shop/web", "1", "2"),
        compose("shop", "web", "x"),
        compose("", "web", "1"),
        compose("shop", "<b>", "1"),
    ] {
        assert_eq!(&*of("me", &forged).subject, "docker:me", "{forged:?}");
    }
    let mut one_off = compose("shop", "web", "1").to_vec();
    one_off.push(("com.docker.compose.oneoff", "True"));
    assert_eq!(&*of("shop-web-run-1", &one_off).subject, "docker:shop-web-run-1");
    let swarm = of(
        "api.3.k2x",
        &[("com.docker.swarm.service.name", "api"), ("com.docker.swarm.task.name", "api.3.k2x")],
    );
    assert_eq!(
        (&*swarm.subject, swarm.service.as_deref(), swarm.replica),
        ("docker:api/3", Some("api"), Some(3))
    );
}

#[test]
fn a_recorded_inspection() {
    let v: Value =
        serde_json::from_str(include_str!("../../../../tests/fixtures/docker/inspect-running.json")).unwrap();
    let f = facts(&v).unwrap();
    assert_eq!(&*f.identity.subject, "docker:shop/web/2");
    assert_eq!((f.memory, f.memory_swap), (Some(32 << 20), Some(64 << 20)));
    assert_eq!((f.running, f.restarting, f.pid, f.restart_count), (true, false, Some(11520), Some(0)));
    assert_eq!(
        (f.stop_signal, f.stop_timeout, f.health_interval, f.health),
        (3, 20.0, Some(5.0), Some(true))
    );
    assert_eq!((&f.network, f.address, f.finished_at), (&Network::None, None, None));
    assert_eq!(f.started_at.unwrap().to_string(), "2026-11-30T07:46:58.516530869Z");
    assert_eq!(
        (f.restart_policy.as_str(), f.hostnames.as_slice()),
        ("on-failure", ["a.example.test".to_string()].as_slice())
    );
    let told = f.described();
    assert_eq!(told.labels.unwrap()["evil"], "<script>\"");
    assert_eq!((told.replica, told.running, told.pid), (Some(2), Some(true), Some(11520)));
}

#[test]
fn states_that_say_running_and_do_not() {
    let of = |state: Value| facts(&json!({"Id": "aa", "State": state})).map(|f| (f.running, f.pid)).unwrap();
    assert_eq!(of(json!({"Running": true, "Restarting": true, "Pid": 0})), (false, None));
    assert_eq!(of(json!({"Status": "running", "Running": true, "Pid": 0})), (false, None));
    assert_eq!(of(json!({"Status": "paused", "Pid": 7})), (true, Some(7)));
    assert_eq!(of(json!({"Running": true, "Paused": true, "Pid": 7})), (true, Some(7)));
    assert_eq!(of(json!({"Status": "exited", "Pid": 0, "ExitCode": 137})), (false, None));
    assert_eq!(of(json!({"Status": 5, "Running": "yes", "Pid": "7"})), (false, None));
}

#[test]
fn no_limit_is_none_and_ports_are_told() {
    let v = json!({"Id": "aa", "HostConfig": {"Memory": 0, "MemorySwap": -1, "NetworkMode": "bridge", "RestartPolicy": {"Name": ""}},
        "Config": {"Healthcheck": {"Test": ["NONE"]}},
        "NetworkSettings": {"Ports": {"80/tcp": [{"HostIp": "0.0.0.0", "HostPort": "8080"}, {"HostIp": "::", "HostPort": "8080"}], "81/tcp": null},
            "Networks": {"b": {"IPAddress": "172.18.0.2"}, "a": {"IPAddress": ""}}}});
    let f = facts(&v).unwrap();
    assert_eq!((f.memory, f.memory_swap, f.health_interval), (None, None, None));
    assert_eq!(f.ports, ["0.0.0.0:8080->80/tcp", "[::]:8080->80/tcp"]);
    assert_eq!(
        (f.networks, f.address, &*f.restart_policy),
        (vec!["a".into(), "b".into()], "172.18.0.2".parse().ok(), "no")
    );
    assert_eq!(
        facts(&json!({"Id": "aa", "HostConfig": {"NetworkMode": "host"}})).unwrap().networks,
        ["host"]
    );
    let shared = facts(&json!({"Id": "aa", "HostConfig": {"NetworkMode": "container:bb"}})).unwrap();
    assert_eq!(shared.network, Network::Container("bb".into()));
    assert_eq!(facts(&json!({"State": {}})), None);
}

#[test]
fn the_memory_cgroup() {
    let v1 = "12:cpuset:/docker/aa\n4:cpu,memory:/docker/bb\n1:name=systemd:/docker/cc\n0::/dd\n";
    assert_eq!(memory_cgroup(v1).as_deref(), Some("/docker/bb"));
    assert_eq!(
        memory_cgroup("0::/system.slice/docker-aa.scope\n").as_deref(),
        Some("/system.slice/docker-aa.scope")
    );
    assert_eq!(memory_cgroup("1:cpu:/x\n"), None);
    assert_eq!(memory_cgroup("garbage"), None);
}

proptest::proptest! {
    #[test]
    fn no_text_breaks_the_decoding(word in ".{0,40}", id in "[0-9a-f]{0,70}", key in ".{0,20}", value in ".{0,40}", n in proptest::num::i64::ANY) {
        let v = json!({"Type": "container", "Action": word, "Actor": {"ID": id, "Attributes": {&key: value}}, "timeNano": n, "time": n});
        let _ = decode(&v);
        let _ = facts(&json!({"Id": id, "Name": word, "State": {"Pid": n, "StartedAt": value}, "Config": {"Labels": {&key: value}, "Env": [word]}}));
    }
}
