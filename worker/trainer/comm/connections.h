// Ends hanging collectives on a CPU from outside.
//
// Gloo cannot abort a collective: it waits for a peer until its timeout. But it reacts to a closed
// connection within a millisecond, on both ends, unless a message is half-way
// (abortable_backend.h). A trainer only has TCP connections of its groups, to their stores, and to
// its own store; all but the last kind can be shut down. Their owners still close them as usual.
#ifndef WORKER_TRAINER_COMM_CONNECTIONS_H_
#define WORKER_TRAINER_COMM_CONNECTIONS_H_

namespace paceline {

// Shuts down all TCP connections of this process except those accepted at `store_port`: readers at
// both ends see them closed. Leaves listening sockets alone. Returns the number of connections. Any
// thread.
int ShutDownConnections(int store_port);

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_CONNECTIONS_H_
