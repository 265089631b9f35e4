// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Segmentation and receive offloads, through ethtool's netlink family.
//!
//! Only the features that [`Offloads`] names are read and written. Beyond these, rtnetlink sets how
//! many segments this machine's TCP passes a device as one packet. TCP joins segments whatever the
//! features are (`sk_setup_caps()`, net/core/sock.c), and the kernel splits them only after the
//! queue.

use crate::Kernel;
use crate::error::{KernelError, Refusal};
use crate::link::{self, Link};
use crate::netlink::channel::Request;
use crate::netlink::fault::{self, FaultAction};
use libc::EOPNOTSUPP;
use nlink::netlink::{Connection, Ethtool};
use std::os::fd::AsFd;
use weirgate_state::{DeviceName, Offloads, Origin};

const TSO: [&str; 2] = ["tx-tcp-segmentation", "tx-tcp6-segmentation"];
const GSO: [&str; 1] = ["tx-generic-segmentation"];
const GRO: [&str; 1] = ["rx-gro"];
/// On an IFB device that cuts merged packets, this is switched with [`TSO`]. Otherwise the datagrams
/// that a virtual machine has merged stay whole (`__udp_gso_segment()`, net/ipv4/udp_offload.c).
const UDP: [&str; 1] = ["tx-udp-segmentation"];

impl Kernel {
    pub(crate) async fn ethtool(&self) -> Result<Connection<Ethtool>, KernelError> {
        let opened = match &self.netns {
            Some(fd) => Connection::<Ethtool>::new_in_async(fd.as_fd()).await,
            None => Connection::<Ethtool>::new_async().await,
        };
        opened.map_err(|error| KernelError::socket("opening the kernel's ethtool family", &error))
    }

    /// Returns the offloads of each device, in the given order; `None` for a device that does not
    /// report its features.
    ///
    /// # Errors
    /// If the kernel has no ethtool family.
    pub async fn offloads(
        &self,
        names: &[DeviceName],
    ) -> Result<Vec<Option<Offloads>>, KernelError> {
        let mut all = Vec::with_capacity(names.len());
        if names.is_empty() {
            return Ok(all);
        }
        let ethtool = self.ethtool().await?;
        let links = self.links().await?;
        for name in names {
            let link = links.iter().find(|link| link.name == *name);
            let features = ethtool.get_features_by_name(name.as_str()).await;
            all.push(features.ok().map(|features| {
                let any = |names: &[&str]| names.iter().any(|name| features.is_active(name));
                Offloads {
                    tso: any(&TSO),
                    gso: any(&GSO),
                    gro: any(&GRO),
                    segments: link.and_then(|link| link.segments),
                }
            }));
        }
        Ok(all)
    }

    /// Switches those offloads of a device that differ. A feature that is requested but off stays
    /// requested. A feature that the device cannot change is left, and shows as a difference when
    /// the result is verified. Needs `CAP_NET_ADMIN`.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub async fn set_offloads(
        &self,
        name: &DeviceName,
        offloads: Offloads,
    ) -> Result<(), KernelError> {
        let failed = |error| KernelError::socket("switching offloads", &error);
        match self.ledger.next(&format!("{name}: switch offloads")) {
            FaultAction::Send => {}
            FaultAction::Kill => fault::die(),
            FaultAction::Spoil => {
                return Err(KernelError::Refused(Refusal {
                    object: format!("{name}: switching offloads"),
                    errno: EOPNOTSUPP,
                    text: None,
                    denial: None,
                    origin: Origin::default(),
                }));
            }
        }
        let ethtool = self.ethtool().await?;
        let features = ethtool
            .get_features_by_name(name.as_str())
            .await
            .map_err(failed)?;
        let links = self.links().await?;
        let cuts = |link: &Link| link.owned_ifb && link.name == *name;
        let udp = links.iter().any(cuts).then_some((&UDP[..], offloads.tso));
        let wanted = [
            (&TSO[..], offloads.tso),
            (&GSO[..], offloads.gso),
            (&GRO[..], offloads.gro),
        ];
        ethtool
            .set_features_by_name(name.as_str(), |mut change| {
                for (names, on) in wanted.into_iter().chain(udp) {
                    let differs = |name: &&&str| {
                        features.is_changeable(name) && features.is_active(name) != on
                    };
                    for feature in names.iter().filter(differs) {
                        change = if on {
                            change.enable(feature)
                        } else {
                            change.disable(feature)
                        };
                    }
                }
                change
            })
            .await
            .map_err(failed)?;
        let Some(most) = offloads.segments else {
            return Ok(());
        };
        let request = Request {
            message: link::set_segments(name, most),
            object: format!("{name}: packets of {most} segments at most"),
            origin: Origin::default(),
            frame: false,
        };
        self.route.batch(vec![request]).await
    }
}
