// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Predictions from line and traffic alone, without any measurement.
//!
//! If a measured figure differs from the thesis, the prediction says what it should be on the line
//! that was built. It uses window over round trip, queue as the sum of windows, serialisation, the
//! load on the wire, and shares of wire bytes. It recognises situations by structure (transfers,
//! windows and shaper), never experiments by name. Other situations have no prediction. It shares
//! no code with the crate `linklayer`, the line emulator or the measurement.

mod gate;
mod htb;
mod replay;
mod shaper;
mod situation;
mod steady;
mod tree;
pub(crate) mod wire;

pub use shaper::{Counting, Shaper, ShaperClass};
pub use situation::Prediction;
pub use wire::{ip_ceiling_kbit, wire_bytes};

#[cfg(test)]
pub(crate) use tree::tests::thesis as thesis_tree;

use situation::Situation;
use weirgate_experiment::{Arm, Experiment};

/// Calculates predictions for one arm, phase by phase.
///
/// `shaper` describes the upstream shaper of this arm; `None` means that there is none. For an arm
/// with `tc` commands, [`Shaper::from_commands`] reads them; for a policy the caller states gate
/// and classes. An arm with commands or a policy but without `shaper` has no predictions.
pub fn predict(experiment: &Experiment, arm: &Arm, shaper: Option<&Shaper>) -> Vec<Prediction> {
    // Nothing is predicted if the shaper or the line changes during the run.
    let line = &experiment.topology.line;
    let changes = !arm.then.is_empty() || arm.autorate.is_some() || arm.oracle.is_some();
    if changes || line.varies.is_some() {
        return Vec::new();
    }
    let touched = arm.policy.is_some() || !arm.commands.is_empty();
    if touched && shaper.is_none() {
        return Vec::new();
    }
    let mut predictions = Vec::new();
    let mut backlog_bits = 0.0;
    for phase in &experiment.phases {
        let Some(situation) = Situation::new(experiment, arm, phase) else {
            backlog_bits = 0.0;
            continue;
        };
        match shaper {
            None => steady::unshaped(&situation, &mut predictions),
            Some(shaper) if shaper.counting == Counting::Wire => {
                gate::one_packet(&situation, shaper, &mut predictions);
                gate::shares(&situation, shaper, &mut predictions);
            }
            Some(shaper) if shaper.counting == Counting::WireTree => {
                gate::shares(&situation, shaper, &mut predictions);
            }
            Some(shaper) => {
                backlog_bits = gate::naive(&situation, shaper, backlog_bits, &mut predictions);
            }
        }
    }
    if shaper.is_some_and(|shaper| shaper.counting == Counting::WireTree) {
        predictions.extend(replay::round_trips(experiment, arm));
    }
    predictions
}
