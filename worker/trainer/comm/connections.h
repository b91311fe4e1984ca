// The TCP connections of this process's groups, and their end from outside.
//
// Gloo cannot abort a collective: it waits for a peer until its timeout. But it reacts to a closed
// connection within a millisecond, on both ends, unless a message is half-way
// (abortable_backend.h). A process has other connections too, which must stay: a script's to a
// database, for instance. Ours are
//   - those to the listeners of the members, which Gloo names in the generation's store,
//   - those accepted at our own such listener,
//   - those to the store itself.
// When Gloo names its listeners in a form that is not known here, those two kinds are not found; an
// abort then ends collectives a moment later.
#ifndef WORKER_TRAINER_COMM_CONNECTIONS_H_
#define WORKER_TRAINER_COMM_CONNECTIONS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace paceline {

// One end of a TCP connection.
struct Endpoint {
  std::array<uint8_t, 16> address{};  // IPv6, in network order. IPv4 addresses are mapped.
  int port = 0;

  bool operator<(const Endpoint& other) const {
    return std::tie(port, address) < std::tie(other.port, other.address);
  }
};

// The listener that Gloo names in a value of a store. Nothing when the value has another form.
std::optional<Endpoint> ListenerIn(const std::vector<uint8_t>& value);

// Thread-safe.
class OwnConnections {
 public:
  // Notes the listener in a value that this process has set, or that it has read. Does nothing when
  // there is none in it.
  void NoteOwn(const std::vector<uint8_t>& value);
  void NoteMember(const std::vector<uint8_t>& value);
  // Notes a store before this process connects to it. Resolves the host's name.
  void NoteStore(const std::string& host, int port);

  // Shuts down this process's own connections: readers at both ends see them closed. Their owners
  // still close them as usual. Leaves alone listening sockets, and what was accepted at
  // `store_port`, where the process's own store listens (0: there is none). Returns the number of
  // connections.
  //
  // Then forgets the members and stores that were noted before the previous call, so that only
  // those of two generations are kept.
  int ShutDown(int store_port);

 private:
  absl::Mutex mu_;
  std::set<int> own_ports_ ABSL_GUARDED_BY(mu_);     // One, as Gloo's device lives on.
  std::set<Endpoint> remotes_ ABSL_GUARDED_BY(mu_);  // Noted since the last ShutDown.
  std::set<Endpoint> remotes_before_ ABSL_GUARDED_BY(mu_);
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_CONNECTIONS_H_
