use std::fmt;

pub const LIMIT: usize = 10;

#[derive(Debug)]
pub struct Shelf<T> {
    size: usize,
    rows: Vec<T>,
}

pub enum Color {
    Red,
    Green(u8),
}

pub trait Row {
    type Item;
    fn read(&self, part: usize) -> Self::Item;
}

impl<T> Shelf<T>
where
    T: Clone,
{
    pub fn new() -> Self {
        fn inner() -> usize {
            1
        }
        Shelf { size: inner(), rows: Vec::new() }
    }

    fn hidden(&self) {}
}

impl fmt::Display for Color {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "x")
    }
}

mod inside {
    pub async fn load(path: &str) -> Result<(), ()> {
        Ok(())
    }
}

macro_rules! square {
    ($x:expr) => {
        $x * $x
    };
}

type Reader = fn(usize) -> String;
