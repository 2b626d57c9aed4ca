//! Tests of the docker source: decoding ([`read`]), facts from recorded and made-up histories ([`history`]), what inspect
//! proves after a gap ([`gap`]), and the transport against a daemon of our own making ([`daemon`]).

mod daemon;
mod gap;
mod history;
mod read;
mod stage;
