// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists that many states share: the rules of a chain, the sets of a table.
//!
//! The desired, applied, observed and planned states mostly have the same hundreds of rules. A copy
//! of a list is another reference to it. Comparing two references to one list looks at no element,
//! and a writer gets a list of its own first.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A list that is copied by reference, and used like a `Vec`.
#[derive(Clone, PartialEq, Eq)]
pub struct Shared<T>(Arc<Vec<T>>);

impl<T> Shared<T> {
    /// Returns whether both refer to the same list. Then they are equal, even in what comparison
    /// ignores.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self(Arc::new(Vec::new()))
    }
}

impl<T> Deref for Shared<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        Arc::make_mut(&mut self.0)
    }
}

impl<T> From<Vec<T>> for Shared<T> {
    fn from(list: Vec<T>) -> Self {
        Self(Arc::new(list))
    }
}

impl<T> FromIterator<T> for Shared<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self::from(Vec::from_iter(items))
    }
}

impl<'a, T> IntoIterator for &'a Shared<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<'a, T: Clone> IntoIterator for &'a mut Shared<T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_slice().serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_writes_gets_a_list_of_its_own() {
        let one = Shared::from(vec![1, 2]);
        let mut other = one.clone();
        assert!(one.is(&other));
        other.push(3);
        assert!(!one.is(&other));
        assert_eq!(
            (one.as_slice(), other.as_slice()),
            (&[1, 2][..], &[1, 2, 3][..])
        );
        assert_ne!(one, other);
        other.pop();
        assert_eq!(one, other);
    }

    #[test]
    fn it_is_written_like_a_list() {
        let list = Shared::from(vec![1, 2]);
        assert_eq!(format!("{list:?}"), "[1, 2]");
        let text = serde_json::to_string(&list).unwrap();
        assert_eq!(text, "[1,2]");
        assert_eq!(serde_json::from_str::<Shared<u8>>(&text).unwrap(), list);
    }
}
