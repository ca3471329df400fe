package control

import "golang.org/x/sys/unix"

// peerOf returns the user of the process at the other end of a Unix socket.
func peerOf(socket int) (uid int, err error) {
	peer, err := unix.GetsockoptUcred(socket, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(peer.Uid), nil
}
