//! HAProxy's Runtime API: `show servers state`. Columns are found by their names, since versions add and reorder them; the
//! administrative state is a bit mask, of which the bits for "began in maintenance by configuration" and "its name was set at
//! run time" say nothing about now.

use super::{Listed, Reply, Standing, Unreadable, begin, cut};

const ASKED: &str = "HAProxy's `show servers state`";

/// Someone asked for maintenance (1), or a server that this one tracks is in it (2).
const MAINTENANCE: u32 = 0x01 | 0x02;
/// Drained by request (8), or with the server that it tracks (16).
const DRAINING: u32 = 0x08 | 0x10;
/// In maintenance because its name does not resolve.
const UNRESOLVED: u32 = 0x20;

/// Where each column stands.
struct Columns<'a>(Vec<&'a str>);

impl Columns<'_> {
    fn of<'v>(&self, name: &str, values: &[&'v str]) -> Option<&'v str> {
        let i = self.0.iter().position(|c| *c == name)?;
        values.get(i).copied().filter(|v| *v != "-" && !v.is_empty())
    }
}

/// Reads a reply.
///
/// # Errors
/// Where no line names the columns.
pub fn servers(reply: &[u8]) -> Result<Reply<Listed>, Unreadable> {
    let lossy = String::from_utf8_lossy(reply);
    let mut columns: Option<Columns<'_>> = None;
    let mut out = Reply::new();
    for line in lossy.lines().map(str::trim).filter(|l| !l.is_empty()) {
        if let Some(names) = line.strip_prefix('#') {
            let names: Vec<&str> = names.split_whitespace().collect();
            if names.contains(&"srv_admin_state") {
                columns = Some(Columns(names));
            }
            continue;
        }
        // Before the columns stands the format's version.
        if let Some(columns) = &columns {
            let values: Vec<&str> = line.split_whitespace().collect();
            out.keep(server(columns, &values));
        }
    }
    columns.map(|_| out).ok_or_else(|| Unreadable { asked: ASKED, found: begin(reply) })
}

fn server(columns: &Columns<'_>, values: &[&str]) -> Option<Listed> {
    let of = |name| columns.of(name, values);
    let operational: u32 = of("srv_op_state")?.parse().ok()?;
    let admin: u32 = of("srv_admin_state")?.parse().ok()?;
    Some(Listed {
        group: cut(of("be_name")?),
        name: cut(of("srv_name")?),
        hostname: of("srv_fqdn").map(cut),
        address: of("srv_addr").map(cut),
        port: of("srv_port").and_then(|p| p.parse().ok()),
        standing: standing(operational, admin),
    })
}

/// Operational: 0 stopped, 1 starting, 2 running, 3 stopping softly.
fn standing(operational: u32, admin: u32) -> Standing {
    if admin & MAINTENANCE != 0 {
        return Standing::Maintenance;
    }
    if admin & UNRESOLVED != 0 {
        return Standing::Unresolved;
    }
    if admin & DRAINING != 0 {
        return Standing::Draining;
    }
    match operational {
        0 => Standing::Failing,
        1 | 2 => Standing::Serving,
        3 => Standing::Draining,
        _ => Standing::Unsaid,
    }
}
