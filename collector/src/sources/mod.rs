//! The sources. Adding one takes its own file and one line here; tests/tidy.rs checks every other list against this one.

pub mod cgroup;
pub mod dns;
pub mod docker;
pub mod host;
pub mod kernel_log;
pub mod proxy_log;
pub mod ready;

use crate::source::Source;

/// Every source, in the order in which they are started.
pub static REGISTRY: &[fn() -> Box<dyn Source>] = &[
    docker::source,
    kernel_log::source,
    cgroup::source,
    host::source,
    ready::source,
    dns::source,
    proxy_log::source,
];
