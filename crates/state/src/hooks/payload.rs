// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The payload classifier.

use super::program::{Clause, HookProgram, ProgramRow, ingress};
use serde::{Deserialize, Serialize};

/// A filter that looks for signatures in the first packets of a flow (`bpf/payload`). It writes the
/// result into the mark of every later packet of the flow, even if the mark was restored before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Payload {
    /// The lowest of the mark's bits that it writes, at most 29; other bits stay.
    pub lowest: u8,
}

/// The beginning of its filter's name.
const LABEL: &str = "weirgate-payload-";

impl Payload {
    /// Returns the lowest bit that the classifier with this filter name writes; `None` if the
    /// filter is not weirgate's.
    #[must_use]
    pub fn of_name(name: &str) -> Option<u8> {
        let lowest = name.strip_prefix(LABEL)?.split('-').next()?;
        let lowest = lowest.parse().ok()?;
        (u32::from(lowest) <= 32 - weirgate_signatures::BITS).then_some(lowest)
    }

    /// Returns the bits of the mark that it writes.
    #[must_use]
    pub const fn mask(self) -> u32 {
        ((1 << weirgate_signatures::BITS) - 1) << self.lowest
    }
}

impl HookProgram for Payload {
    type Settings = Self;

    const ROW: ProgramRow = ProgramRow {
        object: "payload",
        preference: 88,
        filters: &[ingress("payload", LABEL)],
        in_map: false,
        ..ProgramRow::DEFAULT
    };

    fn has_name(name: &str) -> bool {
        Self::of_name(name).is_some()
    }

    fn in_name(own: &Self) -> String {
        format!("{}-", own.lowest)
    }

    fn text(own: &Self) -> String {
        format!("what is found in payloads in {:#010x}", own.mask())
    }

    fn clause(own: &Self) -> Clause {
        Clause::Mark(format!(
            "what is found in their flow's payload in {:#010x} of their mark",
            own.mask()
        ))
    }

    fn comment(own: &Self) -> String {
        format!("bits {:#010x} of the mark", own.mask())
    }
}
