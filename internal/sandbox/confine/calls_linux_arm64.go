package confine

import "golang.org/x/sys/unix"

// arch is what the kernel calls this processor.
const arch = unix.AUDIT_ARCH_AARCH64

// otherABI is 0: this processor has one ABI, and 32-bit programs count as another architecture.
const otherABI = 0

// plainHere and wideHere are calls of the lists that only this processor has.
var plainHere, wideHere []uint32

// pretendedHere is the same for pretended.
var pretendedHere []uint32
