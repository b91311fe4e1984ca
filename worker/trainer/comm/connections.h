// Ending what hangs in collectives on a CPU, from outside.
//
// Gloo has no way to abort a collective: who waits for a peer does so until the timeout. But it
// reacts to a closed connection within a millisecond, on both ends, unless a message is half-way
// (abortable_backend.h). All TCP connections of a trainer are those of its groups, with their
// stores and with the own store; so all but the last can be shut down. Their owners close them as
// ever.
#ifndef WORKER_TRAINER_COMM_CONNECTIONS_H_
#define WORKER_TRAINER_COMM_CONNECTIONS_H_

namespace paceline {

// Shuts down all TCP connections of this process but those that came in at `store_port`: whoever
// reads from them, here or at the other end, learns that they are closed. Listening sockets are
// left. Returns their number. Any thread.
int ShutDownConnections(int store_port);

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_CONNECTIONS_H_
