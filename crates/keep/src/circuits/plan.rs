// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What applying a list would change on a device.

use super::root::Root;
use super::{Circuits, CircuitsRefused};
use weirgate_bpf::CircuitTree;
use weirgate_circuits::kept::{Kept, compared};
use weirgate_state::DeviceName;

impl Circuits<'_> {
    /// Returns a sentence for each kind of thing that would change; none if the list is already
    /// stored and in force.
    pub async fn plan(
        &self,
        name: &DeviceName,
        wanted: &Kept,
    ) -> Result<Vec<String>, CircuitsRefused> {
        let target = self.target(name).await?;
        let kept = self.kept(name)?;
        let mut told = compared(kept.as_ref(), wanted);
        let tree = self.store.circuits(target.point)?;
        let queues = tree.as_ref().map_or(Ok(1), CircuitTree::queues)?;
        let kind = CircuitTree::kind(target.point);
        let root = self.root(&target, &kind, queues).await?;
        if let Root::Foreign(kind) = root {
            return Err(CircuitsRefused::Foreign {
                device: name.clone(),
                kind,
            });
        }
        let is_open = tree.as_ref().map_or(Ok(true), CircuitTree::is_open)?;
        let is_whole = !is_open
            && root.is_whole(queues)
            && !self.lacks_queues(&target, queues)
            && self.store.circuits_are_on(target.point);
        if kept.is_some() && !is_whole {
            told.push("the stored list comes into force again".to_owned());
        }
        Ok(told)
    }
}
