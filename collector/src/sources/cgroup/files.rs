//! The small files of a cgroup, as text. Pure; finding and watching them is the other files' of this folder. A number that
//! is not there is `None`, never 0: some kernels lack some of them.

/// The cgroup of a process from its `/proc/PID/cgroup`: that of the v1 memory controller where there is one, else the
/// unified one. A hybrid host has both lines, and the memory line counts.
#[must_use]
pub fn cgroup_of(text: &str) -> Option<String> {
    let mut unified = None;
    for line in text.lines().take(64) {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        // A process whose cgroup was removed is shown with this mark.
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        if !path.starts_with('/') {
            continue;
        }
        if controllers.split(',').any(|c| c == "memory") {
            return Some(path.into());
        }
        if controllers.is_empty() {
            unified = Some(path.into());
        }
    }
    unified
}

/// The path of a container's own cgroup, cut after the part that holds its id: processes may live below it (`/init.scope`).
#[must_use]
pub fn own_level<'a>(path: &'a str, id: &str) -> &'a str {
    if id.len() < 12 {
        return path;
    }
    match path.rfind(id) {
        Some(at) => {
            let after = at + id.len();
            let end = path.get(after..).and_then(|rest| rest.find('/')).map_or(path.len(), |i| after + i);
            path.get(..end).unwrap_or(path)
        }
        None => path,
    }
}

/// What a cgroup counts of its memory troubles, since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reclaimed below its `low` protection.
    pub low: Option<u64>,
    /// Throttled at `high`.
    pub high: Option<u64>,
    /// Ran into `max` (v1: memory.failcnt).
    pub max: Option<u64>,
    /// Its limit was reached and nothing could be freed. Rises at the level of the limit, and above.
    pub oom: Option<u64>,
    /// Processes killed in it (v2: or below it). Rises at the victim's level, and above.
    pub oom_kill: Option<u64>,
    /// Times that the whole group was killed.
    pub oom_group_kill: Option<u64>,
    /// As `oom`, of this very cgroup's limit alone (memory.events.local).
    pub own_oom: Option<u64>,
}

/// Reads memory.events (or memory.events.local) of v2.
#[must_use]
pub fn memory_events(text: &str) -> Counters {
    let mut c = Counters::default();
    for (key, value) in pairs(text) {
        match key {
            "low" => c.low = Some(value),
            "high" => c.high = Some(value),
            "max" => c.max = Some(value),
            "oom" => c.oom = Some(value),
            "oom_kill" => c.oom_kill = Some(value),
            "oom_group_kill" => c.oom_group_kill = Some(value),
            _ => {}
        }
    }
    c
}

/// Reads memory.oom_control of v1: its `oom_kill`, which kernels before 4.13 (and some builds later) lack.
#[must_use]
pub fn oom_control(text: &str) -> Option<u64> {
    pairs(text).find(|(key, _)| *key == "oom_kill").map(|(_, value)| value)
}

fn pairs(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().take(64).filter_map(|line| {
        let (key, value) = line.trim().split_once(' ')?;
        Some((key, value.trim().parse().ok()?))
    })
}

/// A file of one number of bytes. `max`, and v1's largest page count, mean unlimited: `None`, as for what is no number.
#[must_use]
pub fn bytes(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|n| *n < 1 << 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_line_counts() {
        let hybrid = "9:name=systemd:/a\n4:memory:/docker/b\n0::/c\n";
        assert_eq!(cgroup_of(hybrid).as_deref(), Some("/docker/b"));
        assert_eq!(
            cgroup_of("0::/system.slice/docker-x.scope\n").as_deref(),
            Some("/system.slice/docker-x.scope")
        );
        assert_eq!(cgroup_of("3:cpu,memory:/m:with:colons (deleted)\n").as_deref(), Some("/m:with:colons"));
        assert_eq!(cgroup_of("0::relative\nnonsense\n"), None);
    }

    #[test]
    fn a_container_is_seen_at_its_own_level() {
        let id = "22c42cc67563";
        assert_eq!(own_level("/docker/22c42cc67563/init.scope", id), "/docker/22c42cc67563");
        assert_eq!(own_level("/x/docker-22c42cc67563.scope/init.scope", id), "/x/docker-22c42cc67563.scope");
        assert_eq!(own_level("/docker/22c42cc67563", id), "/docker/22c42cc67563");
        assert_eq!(own_level("/else", id), "/else");
    }

    #[test]
    fn events_of_old_and_new_kernels() {
        let c = memory_events(include_str!("../../../tests/fixtures/cgroup/memory.events-5.15"));
        assert_eq!((c.max, c.oom, c.oom_kill, c.oom_group_kill), (Some(1170), Some(3), Some(2), Some(0)));
        let old = memory_events("low 0\nhigh 0\nmax 12\noom 1\n");
        assert_eq!((old.oom, old.oom_kill), (Some(1), None));
        assert_eq!(memory_events("oom_kill x\n\0\nhigh"), Counters::default());
    }

    #[test]
    fn control_with_and_without_the_counter() {
        assert_eq!(
            oom_control(include_str!("../../../tests/fixtures/cgroup/memory.oom_control-6.18")),
            Some(1)
        );
        assert_eq!(oom_control("oom_kill_disable 0\nunder_oom 0\n"), None);
    }

    #[test]
    fn limits() {
        assert_eq!(bytes("16777216\n"), Some(16 << 20));
        assert_eq!(bytes("max\n"), None);
        assert_eq!(bytes("9223372036854771712\n"), None);
        assert_eq!(bytes(""), None);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text in "(low |high |max |oom |oom_kill |[0-9:/a-z. \n\\x00é]){0,60}", id in "[0-9a-f]{0,20}") {
            let c = memory_events(&text);
            proptest::prop_assert_eq!(oom_control(&format!("oom_kill 7\n{text}")), Some(7));
            let _ = (c, bytes(&text));
            if let Some(path) = cgroup_of(&text) {
                proptest::prop_assert!(path.starts_with(own_level(&path, &id)));
            }
        }
    }
}
