// The calls to a controller, each with a deadline.
//
// A unary call that finds the controller away is tried again until the client's timeout is
// over; that is safe because each is a read, carries a request_id or may be repeated. A stream is
// not tried again here: its reader knows from where to go on (resumption.h).
//
// Thread-safe.
#ifndef CLI_RPC_CLIENT_H_
#define CLI_RPC_CLIENT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/rpc/interrupt.h"
#include "grpcpp/support/status.h"
#include "proto/methods.h"

namespace grpc {
class ChannelCredentials;
}
namespace google::protobuf {
class MessageLite;
}

namespace paceline {

// How long a stream of messages is read.
struct StreamOptions {
  bool endless = false;  // It is UNAVAILABLE when the server ends it; else OK.
  absl::Time deadline = absl::InfiniteFuture();
};

class Client {
 public:
  struct Options {
    std::string server;                          // host:port, or several with commas between them.
    absl::Status problem;                        // Not OK: each call ends with it.
    absl::Duration timeout = absl::Seconds(30);  // Of one unary call with its repetitions.
    absl::Duration stream_limit = absl::Minutes(10);  // A stream is opened anew after that.
    std::string user;  // Told to the controller with each call, for its audit record; or empty.
    // Of the user's token, read anew for each call; empty: there is none. When it cannot be had, or
    // the connection is not one over TLS, the call ends with UNAUTHENTICATED and no token is sent.
    std::function<absl::StatusOr<std::string>()> token = {};
    std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr;  // Null: plain text.
    // Why the controller at the address cannot be reached, if it is more than that nobody answers;
    // else empty. Asked when a call finds it away; what it says ends the call.
    std::function<std::string(const std::string&)> explain = {};
    // One line for people, without a newline, when a call has to wait for the controller.
    std::function<void(const std::string&)> notice;
  };

  // Connects at the first call. `interrupt` outlives the client; when it is raised, calls
  // end with CANCELLED.
  Client(Options options, Interrupt& interrupt);
  ~Client();

  const std::string& server() const { return options_.server; }
  absl::Duration timeout() const { return options_.timeout; }
  Interrupt& interrupt() { return interrupt_; }

  // A unary call: client.Call(methods::kNodeCordon, request, &node). Who makes it includes the
  // messages' *.pb.h.
  template <typename Request, typename Reply>
  grpc::Status Call(const UnaryMethod<Request, Reply>& method, const Request& request,
                    Reply* reply) {
    return CallUnary(method.path, request, reply);
  }

  // Hands each message to `each`, bool(const Message&), until that returns false (then OK) or the
  // stream ends. DEADLINE_EXCEEDED after stream_limit, or at the deadline if that is earlier.
  template <typename Request, typename Message, typename Each>
  grpc::Status Stream(const StreamMethod<Request, Message>& method, const Request& request,
                      const Each& each, const StreamOptions& stream = {}) {
    Message message;
    const auto take = [&] { return each(message); };
    return ReadStream(method.path, request, &message, take, stream);
  }

 private:
  struct Connections;

  grpc::Status CallUnary(const char* path, const google::protobuf::MessageLite& request,
                         google::protobuf::MessageLite* reply);
  grpc::Status ReadStream(const char* path, const google::protobuf::MessageLite& request,
                          google::protobuf::MessageLite* message, const std::function<bool()>& each,
                          const StreamOptions& stream);

  const Options options_;
  Interrupt& interrupt_;
  const std::unique_ptr<Connections> connections_;
};

}  // namespace paceline

#endif  // CLI_RPC_CLIENT_H_
