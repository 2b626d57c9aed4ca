//! Replies of admin interfaces: whatever comes, it is read or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linchpin_collector::admin::{MOST, caddy, envoy, frr, haproxy};

fuzz_target!(|data: &[u8]| {
    if let Ok(reply) = haproxy::servers(data) {
        assert!(reply.entries.len() <= MOST);
    }
    let _ = caddy::upstreams(data);
    let _ = envoy::clusters(data);
    let _ = frr::peers(data);
});
