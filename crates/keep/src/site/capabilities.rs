// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel offers, found once per boot.
//!
//! Some probes of nf_tables are transactions that are aborted, which takes the kernel longer than a
//! whole change. So answers are stored under `/run`, beside the memory of what is applied. What was
//! missing is probed again every time, because modules may be loaded later. Modules may also be
//! unloaded. Then the kernel refuses the change, the change is taken back, and the answers are
//! probed again.

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
    /// The boot that was probed, because the folder may outlive it.
    boot: String,
    /// The version that probed; another version may probe differently.
    version: String,
    found: Capabilities,
}

fn file(folders: &Folders) -> PathBuf {
    folders.run.join("asked.json")
}

/// Returns what was found in this boot.
fn known(folders: &Folders) -> Option<Capabilities> {
    // A file that cannot be read only means that the kernel is probed again.
    let asked = sealed::read::<Asked>(&file(folders), "").ok().flatten()?;
    let ours = asked.boot == folders.boot && asked.version == env!("CARGO_PKG_VERSION");
    ours.then_some(asked.found)
}

impl Site {
    /// Returns what the kernel offers. Probes only what is not known for this boot.
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

    /// Returns the stored answers of this boot, without a question to the kernel.
    #[must_use]
    pub fn stored_capabilities(&self) -> Option<Capabilities> {
        known(&self.folders)
    }

    /// Notes that the kernel refuses the programs of receive windows, if a change failed for that
    /// reason and was undone completely. Returns whether that was the reason.
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

    /// Stores the answers, if the kernel was probed. The folder exists only while something is
    /// applied, and is removed with it.
    pub(super) fn remember_answers(&self) {
        if let Some(found) = self.found().as_ref() {
            let asked = Asked {
                boot: self.folders.boot.clone(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                found: found.clone(),
            };
            // Ignore errors: without the file, the kernel is probed again.
            let _ = sealed::write(&file(&self.folders), &asked);
        }
    }

    /// Deletes the stored answers, because the kernel refused a change. Returns whether there were
    /// any.
    pub fn doubt(&self) -> bool {
        fs::remove_file(file(&self.folders)).is_ok()
    }
}
