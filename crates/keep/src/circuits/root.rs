// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The qdisc of circuits on a device: at its root, or at several of its queues below mq.

use super::{Circuits, CircuitsRefused, Target};
use crate::offloads::{offloads_back, offloads_off};
use std::collections::BTreeMap;
use std::num::NonZero;
use std::thread::available_parallelism;
use weirgate_bpf::MOST_QUEUES;
use weirgate_circuits::kept::Kept;

/// The rate for which one queue is used, in bits per second. A packet takes a processor one or two
/// microseconds (docs/measurements/engine.md); a full-size packet takes six on the wire at this
/// rate.
const EACH: u64 = 2_000_000_000;

/// The root qdisc of a device.
pub(super) enum Root {
    /// The kernel's default.
    Default,
    /// The qdisc of circuits, at these queues. If it is the root qdisc itself, it counts as queue
    /// 0.
    Own {
        /// The handle of mq, if that is the root.
        mq: Option<u32>,
        /// The queues that have the qdisc of circuits.
        queues: Vec<u32>,
    },
    /// A qdisc that another program created, of this kind.
    Foreign(String),
}

impl Root {
    /// Returns whether each of the first `count` queues has the qdisc.
    pub(super) fn is_whole(&self, count: u32) -> bool {
        match self {
            Self::Own { mq, queues } => {
                mq.is_some() == (count > 1) && (0..count).all(|queue| queues.contains(&queue))
            }
            _ => false,
        }
    }
}

/// Why a device has circuits at one queue, though more were requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OneQueue {
    /// The device has only one queue.
    HasOne,
    /// The kernel chooses the queue by the sending processor (XPS).
    ByProcessor,
    /// The list has only one site directly below the link, and a site uses one queue.
    OneSite,
}

/// The queues that circuits will use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queues {
    /// How many.
    pub count: u32,
    /// Why only one is used.
    pub one: Option<OneQueue>,
}

impl Circuits<'_> {
    /// Returns what the device has at its root. If circuits have more than one queue, an mq belongs
    /// to them whatever is below it, because a killed process may have left it incomplete.
    pub(super) async fn root(
        &self,
        target: &Target<'_>,
        kind: &str,
        count: u32,
    ) -> Result<Root, CircuitsRefused> {
        let Some(root) = self.kernel.root_kind(target.index).await? else {
            return Ok(Root::Default);
        };
        if root == kind {
            return Ok(Root::Own {
                mq: None,
                queues: vec![0],
            });
        }
        if let Some((handle, kinds)) = self.kernel.queue_kinds(target.index).await? {
            let own = kinds.into_iter().filter(|(_, other)| *other == kind);
            let queues: Vec<u32> = own.map(|(queue, _)| queue).collect();
            if count > 1 || !queues.is_empty() {
                return Ok(Root::Own {
                    mq: Some(handle),
                    queues,
                });
            }
        }
        Ok(Root::Foreign(root))
    }

    /// Returns how many queues a list gets on a device. That is the requested number, or what the
    /// rate needs, limited by the processors. It never exceeds the queues of the device or the
    /// sites below the link.
    pub(super) fn queues(&self, target: &Target<'_>, kept: &Kept) -> Queues {
        let processors = available_parallelism().map_or(1, NonZero::get);
        let wanted = kept.queues.unwrap_or_else(|| {
            let parts = kept
                .link
                .map_or(u64::MAX, |rate| rate.as_bits_per_second().div_ceil(EACH));
            parts.clamp(1, processors as u64) as u32
        });
        let wanted = wanted.clamp(1, MOST_QUEUES);
        let found = self.kernel.sending_queues(target.name, target.index);
        let parts = kept.list.below_link().min(MOST_QUEUES as usize) as u32;
        let one = match (found.count, found.by_processor) {
            _ if wanted == 1 => None,
            (1, _) => Some(OneQueue::HasOne),
            (_, true) => Some(OneQueue::ByProcessor),
            _ if parts <= 1 => Some(OneQueue::OneSite),
            _ => None,
        };
        Queues {
            count: if one.is_some() {
                1
            } else {
                wanted.min(found.count).min(parts)
            },
            one,
        }
    }

    /// Returns whether the device lost some of these queues since circuits were put there, as by
    /// `ethtool -L`. Their qdiscs stay, but the kernel sends packets to the queues that are left.
    pub(super) fn lacks_queues(&self, target: &Target<'_>, count: u32) -> bool {
        let lacks = |last| self.kernel.lacks_queue(target.name, target.index, last);
        count > 1 && lacks(count - 1)
    }

    /// Puts the qdisc at that many queues, where it is missing, and reads the result back. Undoes
    /// everything if that fails. Returns whether offloads were switched off.
    pub(super) async fn put(
        &self,
        target: &Target<'_>,
        kind: &str,
        count: u32,
    ) -> Result<bool, CircuitsRefused> {
        let (kernel, name, device) = (self.kernel, target.name, target.index);
        // Each packet that the device gets must be one packet on the wire.
        let switched = offloads_off(kernel, name, target.point).await?;
        let put = self.put_at(target, kind, count).await;
        let found = match put {
            Ok(()) => self.root(target, kind, count).await,
            Err(error) => Err(error),
        };
        let refused = match found {
            Ok(found) if found.is_whole(count) => return Ok(switched),
            Ok(Root::Foreign(kind)) => CircuitsRefused::Foreign {
                device: name.clone(),
                kind,
            },
            Ok(_) => CircuitsRefused::Foreign {
                device: name.clone(),
                kind: "the kernel's default".to_owned(),
            },
            Err(error) => error,
        };
        if let Root::Own { .. } = self.root(target, kind, count).await? {
            kernel.drop_root(name, device).await?;
        }
        if switched {
            offloads_back(kernel, name, target.point).await?;
        }
        Err(refused)
    }

    async fn put_at(
        &self,
        target: &Target<'_>,
        kind: &str,
        count: u32,
    ) -> Result<(), CircuitsRefused> {
        let (kernel, name, device) = (self.kernel, target.name, target.index);
        if count == 1 {
            return Ok(kernel.put_root(name, device, kind).await?);
        }
        let (mq, has) = match kernel.queue_kinds(device).await? {
            Some((mq, kinds)) => (mq, kinds),
            None => (kernel.put_mq(name, device).await?, BTreeMap::new()),
        };
        for queue in 0..count {
            if has.get(&queue).is_none_or(|other| other != kind) {
                kernel.put_queue(name, device, (mq, queue), kind).await?;
            }
        }
        Ok(())
    }
}
