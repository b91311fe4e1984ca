#include "controller/rpc/paging.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "controller/rpc/errors.h"

namespace paceline {

grpc::Status CheckPageSize(int asked, int* size) {
  if (asked < 0) {
    return MakeError(grpc::StatusCode::INVALID_ARGUMENT, "PAGE_SIZE_INVALID",
                     absl::StrCat("page_size is ", asked, "; allowed is 0 (for ", kDefaultPageSize,
                                  ") to ", kMaxPageSize));
  }
  *size = asked == 0 ? kDefaultPageSize : std::min(asked, kMaxPageSize);
  return grpc::Status::OK;
}

grpc::Status BadPageToken(const std::string& token) {
  return MakeError(grpc::StatusCode::INVALID_ARGUMENT, "PAGE_TOKEN_INVALID",
                   absl::StrCat("\"", token, "\" is not a next_page_token of this list"));
}

}  // namespace paceline
