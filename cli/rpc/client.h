// Calls to a controller, each with a deadline.
//
// A unary call that finds the controller away is retried until the client's timeout is over. That
// is safe because each is a read, carries a request_id, or may be repeated. Streams are not retried
// here: their readers know where to continue (resumption.h).
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
    std::string server;                               // host:port; several are separated by commas.
    absl::Status problem;                             // If not OK, each call returns it.
    absl::Duration timeout = absl::Seconds(30);       // For a unary call, including retries.
    absl::Duration stream_limit = absl::Minutes(10);  // After that a stream is opened anew.
    std::string user;  // Sent with each call, for the controller's audit record; may be empty.
    // Returns the user's token, which is read anew for each call; unset: there is none. If it
    // cannot be had, or the connection is not TLS, the call ends with UNAUTHENTICATED and no token
    // is sent.
    std::function<absl::StatusOr<std::string>()> token = {};
    std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr;  // Null: plain text.
    // Returns why the controller at an address cannot be reached, if there is more to say than that
    // it does not answer, else "". Called when a call finds it away; a reason ends the call.
    std::function<std::string(const std::string&)> explain = {};
    // Gets one line for people, without a newline, when a call has to wait for the controller.
    std::function<void(const std::string&)> notice;
  };

  // Connects at the first call. `interrupt` outlives the client; raising it makes calls end with
  // CANCELLED.
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
