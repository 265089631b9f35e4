// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What keeps connections in order that change their class: two programs with
//! one map, loaded when a step needs them. They live as long as the device has
//! them; nothing is pinned, and nothing is told them.

use crate::error::KernelError;
use crate::tc::filters::Holders;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use weirgate_bpf::BpfError;
use weirgate_plan::Step;
use weirgate_state::{Arriving, Order};

/// Both programs.
#[derive(Debug)]
pub(crate) struct Loaded {
    arriving: OwnedFd,
    leaving: OwnedFd,
}

impl Loaded {
    /// For what arrives, for what leaves.
    pub(crate) fn numbers(&self) -> (RawFd, RawFd) {
        (self.arriving.as_raw_fd(), self.leaving.as_raw_fd())
    }
}

/// The programs that a step attaches; `None` where it attaches none.
pub(crate) fn programs(
    step: &Step,
    before: Option<&Arriving>,
    after: Option<&Arriving>,
) -> Result<Option<Loaded>, KernelError> {
    let there = before.and_then(|place| place.order);
    let wanted = after.and_then(|place| place.order);
    if wanted.is_none() || Order::same(wanted, there) {
        return Ok(None);
    }
    let load = || -> Result<Loaded, BpfError> {
        let order = weirgate_bpf::Order::load()?;
        Ok(Loaded {
            arriving: order.program(true)?,
            leaving: order.program(false)?,
        })
    };
    let loaded = load().map_err(|source| KernelError::Kit {
        object: step.action.to_string(),
        source,
    })?;
    Ok(Some(loaded))
}

/// What is there. One without the other, or another version's, is to be
/// exchanged.
pub(crate) fn read(holders: &Holders) -> Option<Order> {
    match (holders.order_in, holders.order_out) {
        (None, None) => None,
        (Some(arriving), Some(leaving)) => Some(Order {
            stale: arriving.stale || leaving.stale,
        }),
        (Some(_), None) | (None, Some(_)) => Some(Order { stale: true }),
    }
}
