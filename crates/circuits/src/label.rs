// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Labels: the names of nodes in the kernel's maps.

use std::fmt;
use std::hash::{Hash, Hasher};

/// The identity of a node. Its form in the kernel is a text of at most 61 bytes, whose first
/// letter is the kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Label {
    /// The root of a queue's tree, which stands for the whole device.
    Link,
    /// The default leaf of a queue, which takes the packets of no circuit.
    Others,
    /// A site, by name.
    Site(String),
    /// A circuit, by identifier.
    Circuit(String),
}

impl Label {
    /// How the link is called, and no site.
    pub const LINK_NAME: &'static str = "the link";
    /// How the packets of no circuit are called, and no site.
    pub const OTHERS_NAME: &'static str = "others";

    /// Returns the form of the label in the kernel.
    pub fn text(&self) -> LabelText {
        match self {
            Self::Link => LabelText::LINK,
            Self::Others => LabelText::OTHERS,
            Self::Site(name) => LabelText::site(name),
            Self::Circuit(id) => LabelText::circuit(id),
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().fmt(f)
    }
}

/// A label as the kernel's map contains it, padded with zeros. Comparing a hundred thousand rows
/// by these fixed arrays needs no allocation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LabelText(pub [u8; 64]);

impl LabelText {
    /// The label of a root.
    pub const LINK: Self = Self::new(b'l', "");
    /// The label of a default leaf.
    pub const OTHERS: Self = Self::new(b'o', "");

    /// Returns the label of a site.
    pub const fn site(name: &str) -> Self {
        Self::new(b's', name)
    }

    /// Returns the label of a circuit.
    pub const fn circuit(id: &str) -> Self {
        Self::new(b'c', id)
    }

    const fn new(kind: u8, name: &str) -> Self {
        let mut own = [0; 64];
        own[0] = kind;
        // Leave at least one zero byte, which terminates the text.
        let length = if name.len() < 62 { name.len() } else { 62 };
        let (_, to) = own.split_at_mut(1);
        let (to, _) = to.split_at_mut(length);
        to.copy_from_slice(name.as_bytes().split_at(length).0);
        Self(own)
    }

    /// Returns whether the row was never used.
    pub fn is_empty(&self) -> bool {
        self.0[0] == 0
    }

    /// Returns whether it is the label of a circuit.
    pub fn is_circuit(&self) -> bool {
        self.0[0] == b'c'
    }

    /// Returns the text without the zero padding.
    pub fn bytes(&self) -> &[u8] {
        let mut parts = self.0.split(|byte| *byte == 0);
        parts.next().unwrap_or_default()
    }

    /// Parses the label; returns `None` if it is malformed.
    pub fn read(&self) -> Option<Label> {
        let text = str::from_utf8(self.bytes()).ok()?;
        match (text.get(..1)?, text.get(1..)?) {
            ("l", "") => Some(Label::Link),
            ("o", "") => Some(Label::Others),
            ("s", name) => Some(Label::Site(name.to_owned())),
            ("c", id) => Some(Label::Circuit(id.to_owned())),
            _ => None,
        }
    }
}

impl Hash for LabelText {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Hash all bytes in one call; the derived implementation would also hash the length.
        state.write(&self.0);
    }
}

impl fmt::Display for LabelText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.bytes()))
    }
}

impl fmt::Debug for LabelText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}
