// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether the kernel's tables are known without a read: the generation of nf_tables at which they
//! were last found equal to the stored state.

use super::Site;
use crate::error::KeepError;
use crate::store::memory;
use weirgate_kernel::{Applied, Handles, Scope, Since, TablesVersion};
use weirgate_plan::Plan;

impl Site {
    /// The version of these tables, if it is the one under which the kernel was
    /// found to hold what the memory says.
    pub(super) async fn vouched(
        &self,
        scope: &Scope,
    ) -> Result<Option<(TablesVersion, Handles)>, KeepError> {
        let Some(seen) = memory::seen(&self.folders) else {
            return Ok(None);
        };
        let now = self.kernel.tables_version(scope).await?;
        Ok(Some(seen).filter(|(seen, _)| now == *seen))
    }

    /// Remembers that the kernel was found to hold what the memory says, in
    /// this generation of nf_tables, unless there is another one already.
    pub(super) async fn vouch(&self, scope: &Scope, since: &Since) -> Result<(), KeepError> {
        let unknown = || memory::seen(&self.folders).is_none();
        let Some(generation) = since.generation.filter(|_| unknown()) else {
            return Ok(());
        };
        let version = self.kernel.tables_version(scope).await?;
        if version.generation == generation {
            memory::see(&self.folders, version, since.handles.clone())?;
        }
        Ok(())
    }

    /// Remembers the version of what was read back and is what the memory says.
    pub(super) async fn settled(&self, plan: &Plan, applied: &Applied) {
        let scope = Scope::of([&plan.desired]);
        // Without it, the tables are read again: the change stands.
        let since = Since {
            generation: applied.generation,
            handles: applied.handles.clone(),
        };
        let _ = self.vouch(&scope, &since).await;
    }
}
