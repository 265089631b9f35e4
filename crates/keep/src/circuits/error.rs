// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reasons why a list of circuits is not applied.

use crate::error::KeepError;
use weirgate_bpf::{BpfError, CircuitsError};
use weirgate_kernel::KernelError;
use weirgate_state::DeviceName;

/// Occurs when circuits are not changed as requested. The former ones stay in force, unless the
/// kernel refused in the middle of changing one circuit.
#[derive(Debug, thiserror::Error)]
pub enum CircuitsRefused {
    /// Occurs when a device has a root qdisc that is not weirgate's.
    #[error(
        "{device} has the root qdisc `{kind}` of another program; remove it, or replace it with \
         --adopt"
    )]
    Foreign {
        /// The device.
        device: DeviceName,
        /// The kind of its root qdisc.
        kind: String,
    },
    /// Occurs when the kernel has no BPF qdiscs.
    #[error(
        "the kernel {0} has no BPF qdiscs, which circuits need: Linux 6.16 with \
         CONFIG_NET_SCH_BPF and type information (CONFIG_DEBUG_INFO_BTF)"
    )]
    Unable(String),
    /// Occurs when a device has circuits of the other direction.
    #[error("{0} has circuits of the other direction; `weirgate circuits remove {0} --all` first")]
    Direction(DeviceName),
    /// Occurs when a device has circuits at another number of queues than requested.
    #[error("{0} has circuits at {1} of its queues; `weirgate circuits remove {0} --all` first")]
    Queues(DeviceName, u32),
    /// Occurs when a device has no circuits.
    #[error("{0} has no circuits")]
    None(DeviceName),
    /// Occurs when no list is stored for a device whose circuit is to be changed.
    #[error("no list is stored for {0}; apply one")]
    NotKept(DeviceName),
    /// Occurs when circuits are to be removed until confirmation, but no list is stored from which
    /// they could be restored.
    #[error(
        "no list is kept of the circuits of {0}, so they could not come back; `weirgate circuits \
         remove {0} --all` takes them away at once"
    )]
    NotRestorable(DeviceName),
    /// Occurs when lists are to be applied, or a circuit is to be changed, while lists wait for
    /// confirmation.
    #[error(
        "the change of circuits of {devices} waits for confirmation, {seconds} s more; `weirgate \
         circuits confirm` keeps it, `weirgate circuits rollback` undoes it"
    )]
    Waits {
        /// The devices of the waiting lists.
        devices: String,
        /// The seconds that are left.
        seconds: u64,
    },
    /// Occurs when there is nothing to confirm or to restore.
    #[error("{0}")]
    Nothing(&'static str),
    /// Occurs when the request is wrong.
    #[error("{0}")]
    Wrong(String),
    /// Occurs when a list is larger than the room that the first list left, or a circuit conflicts
    /// with the present ones.
    #[error("{0}; the previous state is in force. {1}")]
    DoesNotFit(CircuitsError, &'static str),
    /// Occurs when the kernel refuses a program or a map.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// Occurs when a netlink request fails.
    #[error(transparent)]
    Kernel(Box<KernelError>),
    /// Occurs when a file cannot be read or written.
    #[error(transparent)]
    Keep(Box<KeepError>),
}

impl CircuitsRefused {
    /// Returns whether the request is wrong, rather than the state of the kernel or of a file.
    pub fn is_wrong(&self) -> bool {
        match self {
            Self::Kernel(error) => matches!(**error, KernelError::NoDevice(_)),
            Self::Unable(_) | Self::Bpf(_) | Self::Keep(_) => false,
            _ => true,
        }
    }
}

impl From<CircuitsError> for CircuitsRefused {
    fn from(error: CircuitsError) -> Self {
        match error {
            CircuitsError::Bpf(error) => error.into(),
            full @ (CircuitsError::Full(_) | CircuitsError::Keys { .. }) => Self::DoesNotFit(
                full,
                "`weirgate circuits remove DEVICE --all` and `apply` make more room, and lose \
                 what is queued",
            ),
            other @ CircuitsError::NoSite(_) => {
                Self::DoesNotFit(other, "Apply a list that has the site")
            }
            other @ CircuitsError::Taken { .. } => {
                Self::DoesNotFit(other, "Change that circuit first")
            }
        }
    }
}

impl From<KernelError> for CircuitsRefused {
    fn from(error: KernelError) -> Self {
        Self::Kernel(Box::new(error))
    }
}

impl From<KeepError> for CircuitsRefused {
    fn from(error: KeepError) -> Self {
        Self::Keep(Box::new(error))
    }
}
