// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How acknowledgements are filtered.

use serde::{Deserialize, Serialize};

/// The ACK filter of cake and of BPF engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum CakeAckFilter {
    /// Off.
    #[default]
    No,
    /// Keeps the ACKs that fast retransmit needs.
    Filter,
    /// Keeps fewer ACKs.
    Aggressive,
}
