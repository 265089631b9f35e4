// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What nodes are called in the kernel.

use std::fmt;
use std::hash::{Hash, Hasher};

/// What a node is. In the kernel it is a text of at most 61 bytes, which begins with
/// a letter for the kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Label {
    /// The whole device, of which each queue has a row.
    Link,
    /// The leaf of packets that are no circuit's, of which each queue has one.
    Others,
    /// The site of this name.
    Site(String),
    /// The circuit of this identifier.
    Circuit(String),
}

impl Label {
    /// What it is in the kernel.
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

/// A label as it is in the kernel, with zeros behind it. Rows of a hundred thousand nodes are
/// compared by these, which take no memory of their own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LabelText(pub [u8; 64]);

impl LabelText {
    /// That of the link.
    pub const LINK: Self = Self::new(b'l', "");
    /// That of others.
    pub const OTHERS: Self = Self::new(b'o', "");

    /// That of a site.
    pub const fn site(name: &str) -> Self {
        Self::new(b's', name)
    }

    /// That of a circuit.
    pub const fn circuit(id: &str) -> Self {
        Self::new(b'c', id)
    }

    const fn new(kind: u8, name: &str) -> Self {
        let mut own = [0; 64];
        own[0] = kind;
        // A zero ends it.
        let length = if name.len() < 62 { name.len() } else { 62 };
        let (_, to) = own.split_at_mut(1);
        let (to, _) = to.split_at_mut(length);
        to.copy_from_slice(name.as_bytes().split_at(length).0);
        Self(own)
    }

    /// What a row has that nobody ever had.
    pub fn is_empty(&self) -> bool {
        self.0[0] == 0
    }

    /// Whether it is that of a circuit.
    pub fn is_circuit(&self) -> bool {
        self.0[0] == b'c'
    }

    /// The text, up to the zero that ends it.
    pub fn bytes(&self) -> &[u8] {
        let mut parts = self.0.split(|byte| *byte == 0);
        parts.next().unwrap_or_default()
    }

    /// What it says; `None` where it is no label.
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
        // As bytes of one text, not one by one.
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
