// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures from recordings: what a run observed becomes numbers with names.
//!
//! Pure: values in, values out. [`measure`] computes the metrics of one arm,
//! [`judge`] compares them with what the experiment promises, [`outcome`]
//! builds the document of `weirgate lab run --json`, [`predict`] calculates
//! what line and traffic alone let expect, and [`series`] prepares curves for
//! plots. Drawing and wording are the crate `report`'s. Names of metrics are
//! `weirgate_experiment::metric`'s; this table says how each is computed.
//!
//! A *window* is a phase from `settle` after its start to its end, or, for a
//! name without a phase, the whole run from its start. A flow is *active* in
//! a window while one of its runs lasts; a transfer of a fixed amount ends
//! when the amount was received. A metric without data is absent, never 0: an
//! expectation on it fails and says why. A phase that the recording does not
//! cover to its end has no metrics.
//!
//! | metric | definition |
//! |---|---|
//! | `rtt.PROBE.*` | of answered probes sent in the window; percentiles are nearest rank |
//! | `rtt.PROBE.variation_ms` | p99.9 minus minimum (Y.1541), from 1000 answers on |
//! | `rtt.PROBE.within_N_ms.ratio` | answers of at most N ms over probes sent |
//! | `loss.PROBE.ratio` | unanswered over sent; one that the run's end cut off is neither |
//! | `iprate.FLOW.*_kbit` | IP bytes of the flow's data direction that left the line, over the active time; `min` and `p50` over full active seconds |
//! | `goodput.FLOW.*_kbit` | the same of payload that receivers read |
//! | `pps.FLOW.mean` | packets of the data direction that left the line per active second |
//! | `loss.FLOW.ratio` | of datagrams: sequence numbers missing between the first and the last received |
//! | `reordered.FLOW.packets` | datagrams received after one with a larger number (RFC 4737 section 3) |
//! | `jitter.FLOW.mean_ms` | mean of the interarrival jitter of RFC 3550 section 6.4.1 after each datagram |
//! | `cwnd`, `outstanding` | of samples of the sender's TCP state; of a group the sum over its members; not of short flows, whose samples are not told apart |
//! | `srtt.FLOW.*_ms` | the smoothed round trip of samples of the sender's TCP state, each connection's by itself; not of short flows |
//! | `retransmitted.FLOW.segments` | segments that senders sent again in the window; not of short flows |
//! | `connect`, `response` | of connections started in the window, to established and to the last byte |
//! | `slowdown.FLOW.*_ratio` | response over the time that the same bytes take, handshake included, where the line has nothing else to do and the sender waits for nothing |
//! | `started`, `unfinished` | short flows started in the window, and those of them whose last byte did not come |
//! | `late.FLOW.max_ms` | longest time from when a short flow was to start to when it did |
//! | `average.PLACE.*_bytes` | of samples of the average by which the kit's discipline there decides |
//! | `util.LINK.ratio` | time in which the line transmitted over the window's length |
//! | `queue.PLACE.*_bytes` | IP bytes; `modem` and `exchange` from the line's log with the packet in transmission, weighted by time; other places from samples, each holding until the next |
//! | `sojourn.CLASS.*_ms` | of stamped packets that left the gateway in the window; of `CLASS` in both directions, of `CLASS-up` and `CLASS-down` in one |
//! | `drops`, `marks` | counted in the window |
//! | `jain.GROUP.index` | (sum x)^2 / (n sum x^2) of the members' goodput; of a group of entries, of what each entry got |
//! | `ahead.NAME.*_packets` | packets waiting or in transmission upstream when a packet of the flow or probe came |
//! | `ackspacing.FLOW.*_ms` | between the ends of transmission of consecutive pure ACKs of the flow |
//! | `ackcompressed.FLOW.ratio` | ACK pairs closer than half the time that the data acknowledged by the second took on the line |
//! | `burst.FLOW.max_ratio` | most wire time of the flow's data that came to the line within 100 ms, over 100 ms |
//! | `sackrelease.FLOW.mean_segments` | data segments that came to the line between an ACK with a SACK block reaching the sender and the next ACK doing so |
//! | `overtaken.FLOW.segments` | data segments that came up to the line below others of their connection that had come before, with bytes that had not: overtaken in the gateway, or lost there and sent again |
//! | `gapped.FLOW.acks` | pure ACKs of the flow's data with a SACK block: a segment had come before an earlier one, or twice |
//! | `change.N.ms` | of the arm's N-th change of policy: from reading its text to what was read back; `writing_ms` from the plan on; `writes` requests that change something, `steps` of the plan, `failures` 0 or 1 |
//! | `change.N.unshaped_packets` | as `unshaped.up.packets`, from when a root of weirgate's is on the line's device to 1 s after the change |
//! | `gap.FLOW.max_ms` | longest time between two datagrams of a member at the receiver, less their interval; never below 0 |
//! | `silence.LINK.max_ms` | longest time within the window in which the line transmitted nothing |
//! | `unshaped.up.packets` | packets that came to the line when a bucket that fills at the line's rate and holds one and a quarter full packets of line bytes was too empty for them; they take nothing from it |
//! | `sent.PLACE.packets` | that left the place, counted in the window |
//! | `tracked.KIND.connections` | that connection tracking knew at the end of the whole run, in an arm with a policy; `answered` where a packet came back, `unanswered` where none did, `kept` where a rule with `keep` has left a mark |
//! | `recovery.PROBE.s` | from the phase's start to the last RTT above minimum + 10 % of the phase's range; only where the phase begins above and ends below |
//!
//! Figures are rounded, so that two runs compare byte for byte and a table
//! shows the number that was judged: `ms`, `kbit` and `mean` to 3 decimals,
//! `bytes` to whole numbers, all others to 6 decimals.

mod activity;
mod error;
mod figures;
mod metric;
pub mod predict;
mod result;
mod run;
pub mod series;
pub mod stats;
mod window;
pub mod y1541;

#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;

pub use error::MeasureError;
pub use figures::{ArmFigures, calculate};
pub use result::judge::{Judgement, Verdict, expected, judge, outcome};
pub use result::repeat;
pub use result::sweep::best;
pub use run::measure;
pub use window::{Window, windows};
