package guild

import "strconv"

// Msat is an amount of money in millisatoshis, the unit of NIP-90's bid and amount tags.
type Msat int64

// String returns the amount with its unit, such as "1000 msat".
func (m Msat) String() string { return strconv.FormatInt(int64(m), 10) + " msat" }
