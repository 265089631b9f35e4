// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Devices with circuits. The kernel sees a qdisc without classes; the counters of circuits are
//! in maps of BPF programs, which root may read.

use crate::circuits::CircuitsLook;
use crate::lock::lock;
use crate::object::Object;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use weirgate_bpf::{AttachPoint, CircuitTree};
use weirgate_kernel::DeviceOverview;

/// How many sites and circuits of a device are reported at every look: those with the most
/// traffic.
const MOST_SITES: usize = 256;
const MOST_CIRCUITS: usize = 20;

/// The circuits of all devices, to answer queries.
#[derive(Debug, Clone, Default)]
pub(crate) struct Circuits {
    /// The circuits by device index.
    pub(crate) devices: BTreeMap<u32, Arc<Mutex<CircuitsLook>>>,
    /// Why those of a device cannot be read.
    pub(crate) refused: Option<String>,
}

impl Circuits {
    /// Reads the circuits of these devices on a blocking thread, and adds the objects that are
    /// reported at every look.
    pub(crate) async fn look(&mut self, devices: &[DeviceOverview], objects: &mut Vec<Object>) {
        let mut known = std::mem::take(&mut self.devices);
        self.refused = None;
        for device in devices.iter().filter(|device| has_circuits(device)) {
            let own = known.remove(&device.index);
            let own = own.filter(|own| lock(own).is_of(&device.name));
            match own.map_or_else(|| open(device), Ok) {
                Ok(own) => {
                    self.devices.insert(device.index, own);
                }
                Err(refused) => self.refused = Some(refused),
            }
        }
        if self.devices.is_empty() {
            return;
        }
        let all: Vec<_> = self.devices.values().cloned().collect();
        let work = tokio::task::spawn_blocking(move || {
            let look = |own: &Arc<Mutex<CircuitsLook>>| {
                let mut own = lock(own);
                own.look();
                own.objects(MOST_SITES, MOST_CIRCUITS)
            };
            all.iter().flat_map(look).collect::<Vec<_>>()
        });
        // There is no result if the runtime is shutting down.
        objects.extend(work.await.unwrap_or_default());
    }
}

fn has_circuits(device: &DeviceOverview) -> bool {
    let kinds = device.counters.qdiscs.iter().map(|qdisc| &qdisc.kind);
    let mut kinds = kinds.filter(|kind| kind.starts_with(CircuitTree::KINDS));
    let own = |kind: &String| {
        let point = AttachPoint::root(device.index);
        point.is_ok_and(|point| CircuitTree::kind(point) == *kind)
    };
    kinds.any(own)
}

fn open(device: &DeviceOverview) -> Result<Arc<Mutex<CircuitsLook>>, String> {
    let name = &device.name;
    match CircuitsLook::open(name, device.index) {
        Ok(Some(look)) => Ok(Arc::new(Mutex::new(look))),
        _ if !rustix::process::geteuid().is_root() => Err(format!(
            "the circuits of {name} can be read by root alone: run `weirgate watch` as root"
        )),
        Ok(None) => Err(format!(
            "the maps of the circuits of {name} are gone: `weirgate circuits apply` makes them"
        )),
        Err(error) => Err(format!("the circuits of {name}: {error}")),
    }
}
