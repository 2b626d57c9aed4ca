//! Did the deaths of S cause the restarts of V? Hits, the chance of as many by luck in a history as bursty as this one, the
//! direction, and the verdict that follows. Works on plain moments; which moments those are (deaths, onsets, observed
//! time) is the ledger's, and which pairs are asked is `pairs`'.

pub mod binomial;
pub mod chance;
pub mod histogram;
pub mod pair;
pub mod pairs;
