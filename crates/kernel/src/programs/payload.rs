// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The classifier of payloads, as far as it comes from elsewhere: this crate
//! attaches programs and builds none.

use crate::error::KernelError;
use crate::observe::files;
use rustix::thread::{CapabilitySet, capabilities};
use std::error::Error;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use weirgate_state::{Ability, Payload, Presence};

/// What loads the classifier into the kernel.
pub trait Loader: Send + Sync {
    /// A program for a `bpf` filter that acts by itself, which writes into the
    /// packet's mark from the bit `lowest` on. Each call gives one that
    /// remembers flows of its own.
    ///
    /// # Errors
    ///
    /// Occurs when the kernel refuses the program.
    fn load(&self, lowest: u8) -> Result<OwnedFd, Box<dyn Error + Send + Sync>>;
}

impl<F> Loader for F
where
    F: Fn(u8) -> Result<OwnedFd, Box<dyn Error + Send + Sync>> + Send + Sync,
{
    fn load(&self, lowest: u8) -> Result<OwnedFd, Box<dyn Error + Send + Sync>> {
        self(lowest)
    }
}

/// The process's own; programs that never look into payloads need none.
static LOADER: OnceLock<Box<dyn Loader>> = OnceLock::new();

/// Gives this process what loads the classifier; the first one stays.
pub fn provide(loader: impl Loader + 'static) {
    let _ = LOADER.set(Box::new(loader));
}

/// Whether this process has what loads the classifier.
pub(crate) fn is_provided() -> bool {
    LOADER.get().is_some()
}

/// Whether the classifier can be attached on this kernel, as far as its files
/// tell: reading them takes tens of milliseconds. Where they do not tell, it is
/// taken for possible.
pub fn can_look() -> bool {
    is_provided() && files::presence(Ability::ClsBpf) != Presence::Absent
}

/// The program that a filter needs; `None` where it needs none.
pub(crate) fn program(wanted: Option<Payload>) -> Result<Option<OwnedFd>, KernelError> {
    let Some(payload) = wanted else {
        return Ok(None);
    };
    let Some(loader) = LOADER.get() else {
        let source = "this program comes without it".into();
        return Err(KernelError::Program { source, denial: "" });
    };
    match loader.load(payload.lowest) {
        Ok(program) => Ok(Some(program)),
        Err(source) => Err(KernelError::Program {
            source,
            denial: denial(),
        }),
    }
}

/// What a process lacks that may not load programs, as the end of a message.
/// CAP_SYS_ADMIN implies both (`bpf_token_capable`, kernel/bpf/token.c).
fn denial() -> &'static str {
    let Ok(own) = capabilities(None) else {
        return "";
    };
    let has = |one| own.effective.intersects(one | CapabilitySet::SYS_ADMIN);
    match (has(CapabilitySet::BPF), has(CapabilitySet::NET_ADMIN)) {
        (true, true) => "",
        (false, true) => " (this needs CAP_BPF)",
        (true, false) => " (this needs CAP_NET_ADMIN)",
        (false, false) => " (this needs CAP_BPF and CAP_NET_ADMIN)",
    }
}
