// Messages as the bytes that gRPC sends and has received. The copies of a grpc::ByteBuffer share
// its bytes, also between threads: what goes to many is encoded once.
#ifndef CONTROLLER_RPC_ENCODED_MESSAGE_H_
#define CONTROLLER_RPC_ENCODED_MESSAGE_H_

#include <google/protobuf/message_lite.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

namespace paceline {

// As gRPC would.
grpc::ByteBuffer Encode(const google::protobuf::MessageLite& message);

// INVALID_ARGUMENT, reason REQUEST_MALFORMED: the bytes are no such message.
grpc::Status DecodeRequest(const grpc::ByteBuffer& encoded, google::protobuf::MessageLite* request);

}  // namespace paceline

#endif  // CONTROLLER_RPC_ENCODED_MESSAGE_H_
