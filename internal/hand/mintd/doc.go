// Package mintd is guild's own Cashu mint, of play money with the unit "test", so that a newcomer can pay and be paid before there
// is a wallet. Its ecash is worthless, and all that it says of itself says so.
//
// It owns the file mint.db: the mint's seed, its keysets, what was spent, what was signed, and quotes. It implements NUT-00 to 12,
// 14 and 20, with bolt11 as the only method. It never handles money of another unit, opens no connection, pays no invoice but its
// own, and answers only requests over loopback that no foreign web page has sent.
//
// A request passes front.go (hosts, origins, sizes), then swap.go or quote.go (what is right by its own content: signatures,
// conditions, sums), then one transaction of store.go, which decides by what is stored, and records. What was answered is on the
// disk.
package mintd
