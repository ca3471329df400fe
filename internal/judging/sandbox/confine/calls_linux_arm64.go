package confine

import "golang.org/x/sys/unix"

// arch is the kernel's identifier of this architecture.
const arch = unix.AUDIT_ARCH_AARCH64

// otherABI is 0, because this architecture has one ABI; 32-bit programs have another arch.
const otherABI = 0

// plainHere and wideHere extend plain and wide with calls that only this architecture has.
var plainHere, wideHere []uint32

// pretendedHere extends pretended.
var pretendedHere []uint32
