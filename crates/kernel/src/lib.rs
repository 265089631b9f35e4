// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Observes a kernel, applies plans and reads counters, through netlink: the only crate that
//! changes a kernel.
//!
//! [`Kernel`] speaks netlink to one network namespace: [`Kernel::observe`]
//! reads what is there into a [`State`](weirgate_state::State),
//! [`Kernel::apply`] carries out a [`Plan`](weirgate_plan::Plan) and verifies
//! it, or undoes what it did, [`Kernel::stats`] reads counters,
//! [`Kernel::capabilities`] asks what the kernel offers. It decides nothing: the plan says what to
//! do.
//!
//! Everything here needs CAP_NET_ADMIN in the namespace, and no other
//! privilege; observing and counters need none.
//!
//! ```
//! use weirgate_kernel::{DeviceName, Kernel, Scope};
//!
//! let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! runtime.block_on(async {
//!     let kernel = Kernel::open()?;
//!     let loopback = DeviceName::new("lo").expect("a name that Linux takes");
//!     assert!(kernel.devices().await?.contains_key(&loopback));
//!     let scope = Scope { devices: [loopback.clone()].into(), ..Scope::default() };
//!     let state = kernel.observe(&scope).await?;
//!     // Nothing shapes it: its qdisc is the kernel's own.
//!     assert!(state.devices[&loopback].root.is_none());
//!     Ok::<(), Box<dyn std::error::Error>>(())
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod apply;
mod conntrack;
mod error;
mod link;
mod namespace;
mod netlink;
mod nft;
mod observe;
mod programs;
mod promiscuous;
mod routing;
mod single;
mod tc;
#[cfg(test)]
mod tests;
mod timestamp;

pub use apply::{Applied, Since};
pub use conntrack::{Carried, Connection, ConnectionCount, ConnectionTable, Tuple};
pub use error::{ApplyError, Cause, Denial, KernelError, Refusal};
pub use link::address::Subnet;
pub use namespace::namespace_cookie;
#[cfg(feature = "played")]
pub use netlink::altered::{Alteration, AlteredAnswer};
pub use netlink::events::{DeviceNews, Events, LostNeighbours, Topic, watch};
pub use netlink::fault::{Fault, Witness};
#[cfg(feature = "played")]
pub use netlink::played::PlayedAnswer;
pub use nft::handle::Handles;
pub use nft::object::RuleCounter;
pub use observe::btf::has_program_qdiscs;
pub use observe::generation::TablesVersion;
pub use observe::overview::{DeviceOverview, Traffic};
pub use observe::{KnownTables, Observed, Scope};
pub use programs::hooks::{Conditioned, Policed, Received, can_look};
pub use programs::pins::locked_pins;
pub use programs::queues::{MQ, SendingQueues};
pub use programs::retained::RetainedPrograms;
pub use promiscuous::Promiscuous;
pub use routing::path::{bind_to_device, checks_sources, receive_only};
pub use tc::stats::{Counters, DeviceCounters};
pub use tc::{Inside, Tin};
pub use timestamp::{Timestamped, enable_timestamps, receive_timestamped, sent_timestamped, took};

use libc::{RTM_GETQDISC, RTM_GETTCLASS};
use netlink::channel::{self, Channel};
use netlink::fault::Ledger;
#[cfg(feature = "played")]
use netlink::{altered::Altered, played::Played, socket::Socket};
use nlink::netlink::Protocol;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use tc::decode::Entry;
pub use weirgate_state::DeviceName;
use weirgate_units::Inserted as _;

/// One network namespace, through its own netlink sockets. They stay in that namespace wherever the
/// calling thread moves.
pub struct Kernel {
    route: Channel,
    nft: Channel,
    ledger: Arc<Ledger>,
    /// The namespace, for sockets that are opened later; `None` means that of the calling thread.
    netns: Option<OwnedFd>,
}

/// Returns whether the calling thread is in the initial network namespace: only that one has this
/// setting (`net_core_table`, net/core/sysctl_net_core.c). Needs no privilege.
pub fn in_initial_namespace() -> bool {
    std::path::Path::new("/proc/sys/net/core/netdev_max_backlog").exists()
}

/// An interface index, which is valid while the device exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceIndex(u32);

impl Kernel {
    /// Returns a duplicate of the nf_tables socket. The process that closes it last waits until the
    /// kernel has freed what transactions replaced (`nft_rcv_nl_event`,
    /// net/netfilter/nf_tables_api.c). That takes one or two RCU grace periods, 10 to 50 ms.
    pub async fn hold(&self) -> std::io::Result<OwnedFd> {
        self.nft.second().await
    }

    /// Opens the namespace of the calling thread. Needs a tokio runtime.
    pub fn open() -> Result<Self, KernelError> {
        Self::with(None)
    }

    /// Opens the namespace behind a descriptor such as `/proc/PID/ns/net`. Entering it once needs
    /// CAP_SYS_ADMIN there (setns(2)). Needs a tokio runtime.
    pub fn open_in(netns: BorrowedFd<'_>) -> Result<Self, KernelError> {
        let own = netns
            .try_clone_to_owned()
            .map_err(|source| KernelError::Socket {
                doing: "keeping the namespace open",
                source,
            })?;
        Self::with(Some(own))
    }

    fn with(netns: Option<OwnedFd>) -> Result<Self, KernelError> {
        let fd = netns.as_ref().map(AsFd::as_fd);
        let ledger = Arc::new(Ledger::default());
        Ok(Self {
            route: Channel::open(Protocol::Route, fd, &ledger)?,
            nft: Channel::open(Protocol::Netfilter, fd, &ledger)?,
            ledger,
            netns,
        })
    }

    /// Creates a kernel that gives these answers to any requests. After the last answer its sockets
    /// fail.
    #[cfg(feature = "played")]
    #[must_use]
    pub fn played(answers: Vec<PlayedAnswer>) -> Self {
        let played = Played::new(answers);
        let ledger = Arc::new(Ledger::default());
        let channel = |tables| Channel::over(Socket::Played(Arc::clone(&played)), tables, &ledger);
        Self {
            route: channel(false),
            nft: channel(true),
            ledger: Arc::clone(&ledger),
            netns: None,
        }
    }

    /// Opens the kernel of a namespace, and alters some of its answers. It never waits for an
    /// answer: an answer that is not queued when the request returns is an error.
    #[cfg(feature = "played")]
    pub fn altered(
        netns: BorrowedFd<'_>,
        answers: Vec<AlteredAnswer>,
    ) -> Result<Self, KernelError> {
        let kernel = Self::open_in(netns)?;
        let altered = Altered::new(answers);
        let channel = |protocol, tables| {
            let socket = channel::opened(protocol, Some(netns))?;
            let socket = Socket::Altered(socket, Arc::clone(&altered));
            Ok::<_, KernelError>(Channel::over(socket, tables, &kernel.ledger))
        };
        Ok(Self {
            route: channel(Protocol::Route, false)?,
            nft: channel(Protocol::Netfilter, true)?,
            ..kernel
        })
    }

    /// Returns how many changing requests were made since this was opened or [`Kernel::inject`] was
    /// called.
    pub fn requests(&self) -> usize {
        self.ledger.count()
    }

    /// Reports every later changing request to `witness`, in words, just before it is sent.
    pub fn witness(&self, witness: Witness) {
        self.ledger.set_witness(witness);
    }

    /// Makes one of the next changing requests fail, counted from 0, so that tests can check the
    /// result. `None` makes none fail.
    pub fn inject(&self, fault: Option<Fault>) {
        self.ledger.set(fault);
    }

    /// Returns the index of a device. Its alternative names do not count.
    pub async fn device(&self, name: &DeviceName) -> Result<DeviceIndex, KernelError> {
        let found = self
            .route
            .get(&link::find(name), name.as_str(), true)
            .await?;
        let mut links = found.iter().filter_map(|payload| link::read(payload));
        // The kernel also finds a device by an alternative name.
        links
            .find(|link| link.name == *name)
            .map(|link| DeviceIndex(link.index))
            .ok_or_else(|| KernelError::NoDevice(name.to_string()))
    }

    /// Reads the counters of a device's qdiscs and classes, by two requests. The kernel lists the
    /// qdiscs of all devices, so this is cheap if there are few.
    pub async fn stats(&self, device: DeviceIndex) -> Result<DeviceCounters, KernelError> {
        let DeviceIndex(index) = device;
        let (qdiscs, classes) = (self.qdiscs().await?, self.classes(index).await?);
        let read = |payloads: &[Vec<u8>]| {
            payloads
                .iter()
                .filter_map(|payload| Entry::of(payload))
                .filter(|entry| entry.ifindex == index)
                .filter_map(|entry| tc::stats::counters(&entry))
                .collect()
        };
        Ok(DeviceCounters {
            qdiscs: read(&qdiscs),
            classes: read(&classes),
        })
    }

    /// Reads the counters of a table's rules by name, in one request. `netdev` is the table's
    /// family, as in [`weirgate_state::Table`].
    pub async fn rule_counters(
        &self,
        netdev: bool,
        table: &str,
    ) -> Result<BTreeMap<String, RuleCounter>, KernelError> {
        let what = nft::label(netdev, table);
        let listed = self
            .nft
            .get(&nft::object::list(netdev), &what, false)
            .await?;
        Ok(listed
            .iter()
            .filter_map(|payload| nft::object::counter(payload, table))
            .inserted())
    }

    /// Switches a chain of [`weirgate_state::Hook::Switched`] on or off. This is one small
    /// transaction that leaves rules, counters and meters alone. It does nothing if the chain is
    /// already on; switching off twice is refused (ENOENT).
    pub async fn switch(
        &self,
        netdev: bool,
        table: &str,
        chain: &str,
        on: bool,
    ) -> Result<(), KernelError> {
        let request = nft::encode::switch(netdev, table, chain, on);
        self.nft
            .batch(nft::encode::transaction(vec![request]))
            .await
    }

    /// Replaces the contents of a set of [`weirgate_state::Content::Refreshed`]. This is one small
    /// transaction that leaves rules, counters and meters alone.
    pub async fn refill(
        &self,
        table: &weirgate_state::Table,
        set: &weirgate_state::Set,
        found: &[u128],
    ) -> Result<(), KernelError> {
        let what = format!("{} set {}", nft::label(table.netdev, &table.name), set.name);
        let requests = nft::sets::refill(set, table.netdev, &table.name, found)
            .into_iter()
            .map(|message| channel::Request {
                message,
                object: what.clone(),
                origin: set.origin.clone(),
                frame: false,
            });
        self.nft
            .batch(nft::encode::transaction(requests.collect()))
            .await
    }

    /// Reads the contents of a set of [`weirgate_state::Content::Refreshed`]; nothing if there is
    /// no such set.
    pub async fn refreshed(
        &self,
        table: &weirgate_state::Table,
        set: &weirgate_state::Set,
    ) -> Result<weirgate_state::Set, KernelError> {
        let what = format!("{} set {}", nft::label(table.netdev, &table.name), set.name);
        let ask = nft::sets::list(table.netdev, &table.name, &set.name);
        let elements = self.nft.get(&ask, &what, false).await?;
        Ok(nft::sets::refreshed(set.name.clone(), set.key, &elements))
    }

    /// Lists the qdiscs of all devices.
    async fn qdiscs(&self) -> Result<Vec<Vec<u8>>, KernelError> {
        let ask = tc::encode::message(RTM_GETQDISC, 0, 0, 0, 0);
        self.route.get(&ask, "listing qdiscs", false).await
    }

    /// Lists the classes of one device.
    async fn classes(&self, index: u32) -> Result<Vec<Vec<u8>>, KernelError> {
        let ask = tc::encode::message(RTM_GETTCLASS, 0, index, 0, 0);
        self.route.get(&ask, "listing classes", false).await
    }
}
