//! The lab: scenes on a real Docker engine, played by `scene/`, timed by its prober, and compared with what the agent
//! answers. Ground truth never comes from Linchpin. Each scene has an engine of its own (own socket, own data, own bridge),
//! so that nobody's containers are touched, and leaves nothing behind, also when it fails. Needs root; `tests/run` brings what
//! else it needs. Run it as `cargo test --release --features lab --test lab -- --test-threads=1`.
#![allow(clippy::disallowed_methods)] // A test waits for a real kernel by the real clock.

mod agent;
mod blind;
mod engine;
mod hostile;
mod interrupted;
mod lives;
mod operator;
mod out_of_memory;
mod process;
mod truth;
mod two_hundred;
