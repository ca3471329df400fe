package confine

import "golang.org/x/sys/unix"

// arch is the kernel's number of this architecture.
const arch = unix.AUDIT_ARCH_AARCH64

// otherABI is 0: this architecture has one ABI, and 32-bit programs have another arch.
const otherABI = 0

// plainHere and wideHere are further calls of plain and wide that only this architecture has.
var plainHere, wideHere []uint32

// pretendedHere are further calls of pretended.
var pretendedHere []uint32
