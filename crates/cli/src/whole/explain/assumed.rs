// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The assumptions behind an answer.

use crate::whole::explain::input::Item;
use weirgate_explain::{Fate, GivenConnection, Unknown};
use weirgate_units::Arrange as _;

/// Returns the assumptions behind an outcome, which the user did not state.
pub fn assumptions(item: &Item, fate: &Fate) -> Vec<String> {
    let mut list = item.taken.clone();
    let unknown = fate.passes.iter().flat_map(|pass| &pass.unknown);
    let mut seen: Vec<Unknown> = unknown.copied().collect();
    seen.arrange();
    seen.dedup();
    for one in seen {
        list.push(
            match one {
                Unknown::CutOff => {
                    "the capture cut the packet off before a field that a rule tests; it counts \
                     as absent"
                }
                Unknown::Payload => "the payload is cut off; it counts as matching no signature",
                Unknown::SourceMac => {
                    "the sender's MAC address is not known, so rules that test it do not match \
                     (write `mac`)"
                }
                Unknown::Sender { what, word } => {
                    list.push(format!(
                        "which {what} sent it is not known, so rules that test one do not match \
                         (write `{word}`)"
                    ));
                    continue;
                }
                Unknown::Time => {
                    "no time was given, so schedules are evaluated at midnight of a Thursday \
                     (write --time)"
                }
                Unknown::Collected => {
                    "connections that ended still count here; the kernel removes them within \
                     about a second, and then the answer differs"
                }
            }
            .to_owned(),
        );
    }
    if let Some(connection) = &fate.connection
        && connection.first
        && item.packet.given == GivenConnection::default()
    {
        list.push("its connection was not known before: this is its first packet".to_owned());
    }
    list
}
