//! The founding incident's pressure: limits of 2.2 times the RAM, swap 87 to 94 % full, kills climbing from 9 to 25 an hour; and
//! what is not known is not nought.

mod scene;

use std::fmt::Write as _;

use linchpin_analyzer::{Query, Report};

const GIB: u64 = 1 << 30;
/// Kills of each hour: 9 an hour at the begin, 25 at the end, growing evenly.
const CLIMB: [u64; 12] = [9, 10, 11, 12, 13, 14, 16, 17, 19, 20, 22, 24];

fn report(scene: &str) -> Report {
    scene::ledger(scene).report(Query::default())
}

/// Twelve hours; the backend's kills are told by log and counter alike.
fn founding() -> String {
    let mut s = format!(
        "0 host: watch_started source=docker\n0 host: watch_started source=\"kernel_log\"\n\
         0 host: host_up boot_id=b memory_total_bytes={} swap_total_bytes={}\n\
         1 docker:backend described running=true instance=b pid=5 memory_limit_bytes={}\n\
         1 docker:proxy described running=true instance=p pid=6 memory_limit_bytes={}\n",
        32 * GIB,
        8 * GIB,
        GIB / 2,
        4 * GIB
    );
    for h in 0..12 {
        let swap = (87 + 7 * h / 11) * 8 * GIB / 100;
        writeln!(
            s,
            "{} host: memory swap_bytes={swap} container_limits_bytes={} containers_unlimited=2",
            h * 3600 + 60,
            704 * GIB / 10
        )
        .unwrap();
        writeln!(
            s,
            "{} docker:proxy memory current_bytes={} limit_bytes={}",
            h * 3600 + 61,
            566 << 20,
            4 * GIB
        )
        .unwrap();
        let n = CLIMB[h as usize];
        for k in 0..n {
            let t = h * 3600 + 120 + k * 3400 / n;
            writeln!(
                s,
                "{t} docker:backend oom_kill pid={} by=kernel_log limit_bytes={} scope=memcg",
                t,
                GIB / 2
            )
            .unwrap();
            writeln!(s, "{t}.4 docker:backend oom_kill by=cgroup count=1").unwrap();
        }
    }
    s + &format!(
        "{} host: watch_stopped source=docker reason=end\n{} host: watch_stopped source=\"kernel_log\" reason=end\n",
        12 * 3600,
        12 * 3600
    )
}

#[test]
fn the_founding_hosts_pressure() {
    let r = report(&founding());
    assert_eq!(
        r.host_pressure[0].sentences,
        [
            "Container limits add up to 70.4 GiB, 2.2 times the 32 GiB of RAM.",
            "2 running containers have no limit.",
            "Swap is 87–94 % full.",
            "The kernel killed 187 times, 15.6 an hour, rising from 9 to 25 an hour.",
        ]
    );
    assert_eq!(r.subject_pressure.len(), 1, "the proxy is far from its ceiling");
    assert_eq!(
        r.subject_pressure[0].sentence,
        "backend used at most 512 MiB of 512 MiB (100 %), and was killed at its limit 187 times, 15.6 an hour, rising from 9 to 25 \
         an hour."
    );
    let proxy = scene::ledger(&founding()).process(None, "docker:proxy", Query::default()).unwrap();
    assert_eq!(
        proxy.pressure.unwrap().sentence,
        "proxy used at most 566 MiB of 4 GiB (14 %), and was never killed for it."
    );
}

#[test]
fn what_nobody_read_is_not_nought() {
    let r = report(&scene::watched(
        "5 docker:a described instance=i1 memory_limit_bytes=1048576\n10 docker:a oom_kill pid=5 by=kernel_log scope=host",
    ));
    let p = &r.host_pressure[0];
    assert_eq!((p.kills, p.kills_per_hour, p.overcommit, p.swap_share), (1, None, None, None));
    assert_eq!(p.sentences, ["The kernel killed once."]);
    // The host ran out: its own ceiling has nothing to do with it.
    assert!(r.subject_pressure.is_empty());
    let a = scene::ledger(&scene::watched("5 docker:a described instance=i1 memory_limit_bytes=1048576"));
    let a = a.process(None, "docker:a", Query::default()).unwrap();
    assert_eq!(
        a.pressure.unwrap().sentence,
        "a has a limit of 1 MiB, and nobody read how much it used, and was never killed for it."
    );
}
