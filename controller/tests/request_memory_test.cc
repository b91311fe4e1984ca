// What is remembered of mutations over a restart.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "controller/core/requests/request_log.h"
#include "controller/store/records.h"
#include "controller/store/sqlite_store.h"
#include "controller/store/state_file.h"
#include "controller/testing/running_server.h"

namespace paceline {
namespace {

// As stored by a version that kept all requests of a day.
TEST(RequestMemoryTest, TooManyRequestsAreForgottenAtTheStartTheOldestFirst) {
  const std::string directory = NewDirectory();
  RunningServer(directory).Stop();
  const std::string file = absl::StrCat(directory, "/", kStateFileName);
  {
    const auto store = SqliteStore::Open(file);
    ASSERT_TRUE(store.ok()) << store.status();
    const absl::Time begin = absl::Now() - absl::Hours(1);
    WriteBatch batch;
    for (size_t i = 0; i < kMaxRequests + 10; ++i) {
      const RequestLog::Entry entry{1, JobId(), begin + absl::Milliseconds(i)};
      batch.puts[RequestKey(absl::StrCat("request-", i))] = EncodeRequest(entry);
    }
    ASSERT_TRUE((*store)->Commit(batch).ok());
  }
  RunningServer(directory).Stop();
  const auto store = SqliteStore::Open(file);
  ASSERT_TRUE(store.ok()) << store.status();
  const auto kept = (*store)->Load("request/");
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->size(), kMaxRequests - 1) << "there is room for one";
  EXPECT_EQ(kept->count(RequestKey("request-10")), 0);
  EXPECT_EQ(kept->count(RequestKey("request-11")), 1);
}

}  // namespace
}  // namespace paceline
