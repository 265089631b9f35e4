// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel offers, found once per run of the kernel.
//!
//! Some questions to nf_tables are transactions that it gives up, which takes it
//! longer than a whole change. So answers are kept under `/run` beside the
//! memory of what is applied. What was missing is asked again every time, as
//! modules may come. What was there may go too: then the kernel refuses the
//! change, which is taken back, and the answers are asked anew.

use super::Site;
use crate::error::KeepError;
use crate::store::folder::Folders;
use crate::store::sealed;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;
use std::sync::{MutexGuard, PoisonError};
use weirgate_state::{Capabilities, Program};

#[derive(Debug, Serialize, Deserialize)]
struct Asked {
    /// The run of the kernel: folders may outlive it.
    boot: String,
    /// Who asked: another version may understand a question otherwise.
    version: String,
    found: Capabilities,
}

fn file(folders: &Folders) -> PathBuf {
    folders.run.join("asked.json")
}

/// What was found in this run of the kernel.
fn known(folders: &Folders) -> Option<Capabilities> {
    // What cannot be read is asked again.
    let asked = sealed::read::<Asked>(&file(folders), "").ok().flatten()?;
    let ours = asked.boot == folders.boot && asked.version == env!("CARGO_PKG_VERSION");
    ours.then_some(asked.found)
}

impl Site {
    /// What the kernel offers. Asked is what is not known of its present run.
    pub async fn capabilities(&self) -> Result<Capabilities, KeepError> {
        let kept = known(&self.folders);
        let learnt = self.found().clone();
        let known = learnt.as_ref().or(kept.as_ref());
        let found = self.kernel.capabilities_beside(known).await?;
        if kept.as_ref() != Some(&found) {
            *self.found() = Some(found.clone());
        }
        Ok(found)
    }

    /// Notes that the kernel does not take the programs of receive windows, where a change
    /// failed for that and left everything as it was; whether it did.
    pub async fn learn_refusal(&self, error: &KeepError) -> Result<bool, KeepError> {
        let KeepError::Apply(error) = error else {
            return Ok(false);
        };
        if error.refused_program() != Some(Program::Windows) {
            return Ok(false);
        }
        let mut found = self.capabilities().await?;
        found.windows_refused = true;
        *self.found() = Some(found);
        Ok(true)
    }

    fn found(&self) -> MutexGuard<'_, Option<Capabilities>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what was asked, if it was, in the folder that is there while
    /// something is applied and goes with it.
    pub(super) fn remember_answers(&self) {
        if let Some(found) = self.found().as_ref() {
            let asked = Asked {
                boot: self.folders.boot.clone(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                found: found.clone(),
            };
            // Without it, the kernel is asked again.
            let _ = sealed::write(&file(&self.folders), &asked);
        }
    }

    /// Forgets what the kernel was found to offer, because it refused a change;
    /// whether anything was known.
    pub fn doubt(&self) -> bool {
        fs::remove_file(file(&self.folders)).is_ok()
    }
}
