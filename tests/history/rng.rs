//! Random numbers by seed (SplitMix64): the same seed plans the same faults, as far as processes allow.

#[derive(Debug, Clone)]
pub struct Rng {
    state: u64,
}

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng { state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03 }
    }

    /// A stream of its own for one part of the run.
    pub fn fork(&self, part: &str) -> Rng {
        let hash =
            part.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01B3));
        Rng::new(self.state ^ hash)
    }

    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// 0..n
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub fn millis(&mut self, low: u64, high: u64) -> std::time::Duration {
        std::time::Duration::from_millis(self.between(low, high))
    }

    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        if of.is_empty() { None } else { of.get(self.below(of.len() as u64) as usize) }
    }

    pub fn shuffle<T>(&mut self, of: &mut [T]) {
        for i in (1..of.len()).rev() {
            of.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

/// Deals every card once before any comes again: each kind of fault is met, in an order of the seed's.
#[derive(Debug)]
pub struct Deck<T> {
    all: Vec<T>,
    left: Vec<T>,
    rng: Rng,
}

impl<T: Copy> Deck<T> {
    pub fn new(all: &[T], rng: Rng) -> Deck<T> {
        Deck { all: all.to_vec(), left: Vec::new(), rng }
    }

    pub fn deal(&mut self) -> T {
        if self.left.is_empty() {
            self.left.clone_from(&self.all);
            self.rng.shuffle(&mut self.left);
        }
        self.left.pop().unwrap_or(self.all[0])
    }

    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }
}
