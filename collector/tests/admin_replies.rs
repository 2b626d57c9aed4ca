//! Replies of admin interfaces against what they say. HAProxy 2.6, Caddy 2.6 and FRR 8.4 are replies of real programs set up
//! so that every standing occurs; Envoy's follow its published API.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use linchpin_collector::admin::frr::Session;
use linchpin_collector::admin::holder::holder;
use linchpin_collector::admin::{Listed, Standing, caddy, envoy, frr, haproxy};
use linchpin_collector::roster::{Container, Traits};
use proptest::prelude::*;

const HAPROXY: &[u8] = include_bytes!("admin/haproxy_2_6.txt");
const FRR: &[u8] = include_bytes!("admin/frr_8_4.json");
const FRR_ALL: &[u8] = include_bytes!("admin/frr_8_4_all_vrfs.json");

fn standings(listed: &[Listed]) -> Vec<(&str, Standing)> {
    listed.iter().map(|l| (l.name.as_str(), l.standing)).collect()
}

#[test]
fn haproxys_admin_state_is_a_mask() {
    let reply = haproxy::servers(HAPROXY).unwrap();
    assert_eq!(reply.left_out, 0);
    assert_eq!(
        standings(&reply.entries),
        [
            ("a", Standing::Serving),
            ("b", Standing::Failing),
            ("named", Standing::Unresolved),
            ("slot1", Standing::Draining),
            ("slot2", Standing::Maintenance),
            // Begun as disabled, ready since: the bit of the configuration is still set.
            ("slot3", Standing::Serving),
        ]
    );
    let named = &reply.entries[2];
    assert_eq!((named.hostname.as_deref(), named.address.as_deref()), (Some("backend.example"), None));
    assert_eq!((reply.entries[5].address.as_deref(), reply.entries[5].port), (Some("10.1.2.3"), Some(80)));
}

#[test]
fn haproxys_columns_vary_by_version() {
    let text = String::from_utf8(HAPROXY.to_vec()).unwrap();
    // An older one has fewer columns, a later one more, and in another order.
    let older = "1\n# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight\n3 app 1 a 10.0.0.1 2 0 1\n";
    let later = "2\n# srv_name be_name new_thing srv_admin_state srv_op_state srv_port srv_addr\na app 7 1 2 80 10.0.0.1\n";
    let (old, new) =
        (haproxy::servers(older.as_bytes()).unwrap(), haproxy::servers(later.as_bytes()).unwrap());
    assert_eq!((old.entries[0].port, old.entries[0].standing), (None, Standing::Serving));
    assert_eq!((new.entries[0].port, new.entries[0].standing), (Some(80), Standing::Maintenance));
    // A line that is cut off is counted.
    let torn = haproxy::servers(&text.as_bytes()[..text.len() - 60]).unwrap();
    assert_eq!((torn.entries.len(), torn.left_out), (5, 1));
}

#[test]
fn caddy_may_never_say_healthy() {
    let real = br#"[{"address":"127.0.0.1:18081","num_requests":0,"fails":0},{"address":"backend:80","num_requests":0,"fails":0}]"#;
    let reply = caddy::upstreams(real).unwrap();
    let all: Vec<_> = reply
        .entries
        .iter()
        .map(|l| (l.hostname.as_deref(), l.address.as_deref(), l.port, l.standing))
        .collect();
    assert_eq!(
        all,
        [
            (None, Some("127.0.0.1"), Some(18081), Standing::Unsaid),
            (Some("backend"), None, Some(80), Standing::Unsaid),
        ]
    );
    let old =
        br#"[{"address":"[::1]:80","healthy":true},{"address":"b:80","healthy":false},{"healthy":true}]"#;
    let reply = caddy::upstreams(old).unwrap();
    assert_eq!(reply.left_out, 1);
    assert_eq!(standings(&reply.entries), [("[::1]:80", Standing::Serving), ("b:80", Standing::Failing)]);
    assert_eq!(reply.entries[0].address.as_deref(), Some("::1"));
    assert!(caddy::upstreams(b"null").unwrap().entries.is_empty());
}

#[test]
fn envoy_mixes_cases_omits_zeros_and_quotes_numbers() {
    let reply = br#"{"cluster_statuses":[
        {"name":"app","host_statuses":[
            {"address":{"socket_address":{"address":"10.0.0.1","port_value":80}},"health_status":{"eds_health_status":"HEALTHY"},"hostname":"backend"},
            {"address":{"socketAddress":{"address":"10.0.0.2","portValue":"80"}},"healthStatus":{"failedActiveHealthCheck":true,"edsHealthStatus":"HEALTHY"}},
            {"address":{"socket_address":{"address":"10.0.0.3"}},"health_status":{}},
            {"address":{"socket_address":{"address":"10.0.0.4","port_value":80}},"health_status":{"pending_active_hc":true}},
            {"address":{"socket_address":{"address":"10.0.0.5","port_value":80}},"health_status":{"eds_health_status":"DRAINING"}},
            {"address":{"pipe":{"path":"/run/app.sock"}}}]},
        {"name":"empty"}]}"#;
    let reply = envoy::clusters(reply).unwrap();
    assert_eq!(reply.left_out, 1, "a pipe has no address");
    assert_eq!(
        standings(&reply.entries),
        [
            ("10.0.0.1:80", Standing::Serving),
            ("10.0.0.2:80", Standing::Failing),
            ("10.0.0.3:0", Standing::Serving),
            ("10.0.0.4:80", Standing::Unsaid),
            ("10.0.0.5:80", Standing::Draining),
        ]
    );
    assert_eq!(reply.entries[1].port, Some(80));
    assert_eq!(reply.entries[2].port, None);
    assert!(envoy::clusters(b"{}").unwrap().entries.is_empty());
}

#[test]
fn frr_nests_by_vrf_and_its_totals_disagree() {
    let one = frr::peers(FRR).unwrap();
    let all = frr::peers(FRR_ALL).unwrap();
    let told = |r: &[frr::Peer]| -> Vec<(String, String, Session)> {
        r.iter().map(|p| (p.instance.clone(), p.peer.clone(), p.session)).collect()
    };
    let default = |way: &str| -> Vec<(String, String, Session)> {
        vec![
            (way.into(), "10.9.0.2".into(), Session::Established),
            (way.into(), "10.9.0.8".into(), Session::ShutDown),
            (way.into(), "10.9.0.9".into(), Session::Down),
        ]
    };
    assert_eq!(told(&one.entries), default("default ipv4Unicast"));
    let mut both = default("default");
    both.push(("red".into(), "10.9.1.9".into(), Session::Down));
    assert_eq!(told(&all.entries), both);
    // The reply itself says that two peers failed; one of them was shut down on purpose.
    let value: serde_json::Value = serde_json::from_slice(FRR).unwrap();
    assert_eq!(value["ipv4Unicast"]["failedPeers"], 2);
    let down = one.entries.iter().filter(|p| p.session == Session::Down).count();
    assert_eq!(down, 1);
    // Both nestings at once, and a daemon without BGP.
    let deep = br#"{"default":{"ipv4Unicast":{"vrfName":"default","peers":{"a":{"state":"Established","remoteAs":"65001"}}}}}"#;
    let deep = frr::peers(deep).unwrap();
    assert_eq!(
        (deep.entries[0].instance.as_str(), deep.entries[0].remote_as),
        ("default ipv4Unicast", Some(65001))
    );
    assert!(frr::peers(br#"{"warning":"Default BGP instance not found"}"#).unwrap().entries.is_empty());
}

#[test]
fn what_is_no_reply_is_said() {
    let login = b"<html><body>Sign in</body></html>";
    for error in [
        haproxy::servers(login).unwrap_err(),
        caddy::upstreams(login).unwrap_err(),
        envoy::clusters(login).unwrap_err(),
        frr::peers(login).unwrap_err(),
        frr::peers(br#"{"peers_of_another_program":[]}"#).unwrap_err(),
        envoy::clusters(br#"{"clusters":[]}"#).unwrap_err(),
        caddy::upstreams(b"").unwrap_err(),
    ] {
        assert!(error.to_string().contains("is this its admin interface?"), "{error}");
    }
}

fn container(name: &str, address: [u8; 4]) -> Container {
    Container {
        id: name.into(),
        subject: format!("docker:{name}").into(),
        name: name.into(),
        running: true,
        address: Some(IpAddr::V4(Ipv4Addr::from(address))),
        traits: Arc::new(Traits { names: vec![name.to_string()], ..Traits::default() }),
        ..Container::default()
    }
}

#[test]
fn a_stale_address_that_another_container_holds() {
    let listed = |hostname: &str, address: &str| Listed {
        group: "app".into(),
        name: "s1".into(),
        hostname: Some(hostname.into()),
        address: Some(address.into()),
        port: Some(80),
        standing: Standing::Serving,
    };
    // The backend was re-created and got another address; the database got its old one.
    let now = [container("backend", [172, 18, 0, 5]), container("database", [172, 18, 0, 3])];
    let stale = holder(&listed("backend", "172.18.0.3"), &now);
    assert_eq!(stale.meant, ["docker:backend".into()]);
    assert_eq!(stale.held_by.as_deref(), Some("docker:database"));
    assert!(stale.is_another());
    assert!(!holder(&listed("backend.shop", "172.18.0.5"), &now).is_another());
    // Nobody holds it, or nobody answers to the name: not another's, and not known to be right.
    assert_eq!(holder(&listed("backend", "172.18.0.9"), &now).held_by, None);
    assert!(!holder(&listed("elsewhere.example", "172.18.0.3"), &now).is_another());
    // One that has stopped holds nothing.
    let mut gone = now.clone();
    gone[1].running = false;
    assert!(!holder(&listed("backend", "172.18.0.3"), &gone).is_another());
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = haproxy::servers(&bytes);
        let _ = caddy::upstreams(&bytes);
        let _ = envoy::clusters(&bytes);
        let _ = frr::peers(&bytes);
    }

    #[test]
    fn any_damage_to_a_reply_is_borne(at in 0usize..2000, by in any::<u8>()) {
        for sample in [HAPROXY, FRR, FRR_ALL] {
            let mut bytes = sample.to_vec();
            if let Some(b) = bytes.get_mut(at) {
                *b = by;
            }
            let _ = haproxy::servers(&bytes);
            let _ = frr::peers(&bytes);
        }
    }
}
