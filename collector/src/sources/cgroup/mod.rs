//! Memory of each container, as its cgroup tells it.

pub mod files;
