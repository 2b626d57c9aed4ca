//! Envoy's admin interface: `/clusters?format=json`. Fields come in snake_case or camelCase, what is zero or false is left out,
//! and numbers may be written as text: a missing flag is false, a missing port is 0 and thus none.

use serde_json::Value;

use super::{Listed, Reply, Standing, Unreadable, begin, cut, field, is_address, json, text, whole};

const ASKED: &str = "Envoy's `/clusters?format=json`";

/// Flags of a host that take it out of balancing.
const FAILED: [[&str; 2]; 3] = [
    ["failed_active_health_check", "failedActiveHealthCheck"],
    ["failed_outlier_check", "failedOutlierCheck"],
    ["excluded_via_immediate_hc_fail", "excludedViaImmediateHcFail"],
];

/// Reads a reply.
///
/// # Errors
/// Where it lists no clusters. A proxy without any cluster leaves the list out; its reply is `{}`.
pub fn clusters(reply: &[u8]) -> Result<Reply<Listed>, Unreadable> {
    let value = json(ASKED, reply)?;
    let unreadable = || Unreadable { asked: ASKED, found: begin(reply) };
    let object = value.as_object().ok_or_else(unreadable)?;
    let Some(clusters) = field(&value, ["cluster_statuses", "clusterStatuses"]) else {
        return if object.is_empty() { Ok(Reply::new()) } else { Err(unreadable()) };
    };
    let mut out = Reply::new();
    for cluster in clusters.as_array().ok_or_else(unreadable)? {
        let group = text(cluster.get("name")).unwrap_or_default();
        let hosts = field(cluster, ["host_statuses", "hostStatuses"]).and_then(Value::as_array);
        for host in hosts.into_iter().flatten() {
            out.keep(listed(&group, host));
        }
    }
    Ok(out)
}

fn listed(group: &str, host: &Value) -> Option<Listed> {
    let address = host.get("address")?;
    let socket = field(address, ["socket_address", "socketAddress"])?;
    let at = text(socket.get("address"))?;
    let named = text(host.get("hostname")).filter(|h| !is_address(h));
    let port = whole(field(socket, ["port_value", "portValue"])).and_then(|p| u16::try_from(p).ok());
    Some(Listed {
        group: cut(group),
        name: format!("{at}:{}", port.unwrap_or(0)),
        hostname: named,
        address: Some(at),
        port: port.filter(|p| *p > 0),
        standing: standing(field(host, ["health_status", "healthStatus"])),
    })
}

/// With nothing said against it, and nothing left out but what is false, a host is balanced to.
fn standing(health: Option<&Value>) -> Standing {
    let Some(health) = health else { return Standing::Unsaid };
    let flagged = |names| field(health, names).and_then(Value::as_bool) == Some(true);
    if FAILED.iter().any(|names| flagged(*names)) {
        return Standing::Failing;
    }
    if flagged(["pending_active_hc", "pendingActiveHc"]) {
        return Standing::Unsaid;
    }
    match field(health, ["eds_health_status", "edsHealthStatus"]).and_then(Value::as_str) {
        Some("UNHEALTHY" | "TIMEOUT") => Standing::Failing,
        Some("DRAINING") => Standing::Draining,
        Some("UNKNOWN" | "HEALTHY" | "DEGRADED") | None => Standing::Serving,
        Some(_) => Standing::Unsaid,
    }
}
