#include "controller/rpc/encoded_message.h"

#include <grpcpp/impl/codegen/proto_utils.h>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "controller/rpc/errors.h"

namespace paceline {
namespace {

using Traits = grpc::SerializationTraits<google::protobuf::MessageLite>;

}  // namespace

grpc::ByteBuffer Encode(const google::protobuf::MessageLite& message) {
  grpc::ByteBuffer encoded;
  bool is_own = false;
  const grpc::Status status = Traits::Serialize(message, &encoded, &is_own);
  PACELINE_CHECK(status.ok()) << status.error_message();
  return encoded;
}

grpc::Status DecodeRequest(const grpc::ByteBuffer& encoded,
                           google::protobuf::MessageLite* request) {
  grpc::ByteBuffer read = encoded;  // It is emptied.
  if (Traits::Deserialize(&read, request).ok()) return grpc::Status::OK;
  return MakeError(grpc::StatusCode::INVALID_ARGUMENT, "REQUEST_MALFORMED",
                   absl::StrCat("the request is no ", request->GetTypeName()));
}

}  // namespace paceline
