#include "worker/trainer/object_store/object_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/tls/server_context.h"
#include "common/tls/testing/test_identity.h"
#include "common/tls/tls_files.h"
#include "worker/trainer/object_store/testing/object_server.h"

namespace paceline {
namespace {

using Source = std::shared_ptr<const RangeSource>;
using Request = ObjectServer::Request;

constexpr size_t kBlockBytes = 1000;

// No byte is that of its neighbours, nor of the same place in another block.
std::string Contents(size_t bytes, size_t seed = 0) {
  std::string contents(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i)
    contents[i] = static_cast<char>((i + seed) * 2654435761u >> 13);
  return contents;
}

std::string HeaderOf(const Request& request, const std::string& name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? "" : found->second;
}

class ObjectStoreTest : public testing::Test {
 protected:
  ObjectStoreTest() {
    std::string name = testing::TempDir() + "/store-XXXXXX";
    EXPECT_NE(::mkdtemp(&name[0]), nullptr);
    options_.allowed = {"s3://corpora/", "gs://corpora/", server_.url()};
    options_.cache_directory = name + "/objects";
    options_.cache_bytes = 1 << 20;
    options_.block_bytes = kBlockBytes;
    options_.backoff = {absl::Milliseconds(1), absl::Milliseconds(5), 2.0};
    options_.variables = [this](const char* name) {
      const auto found = variables_.find(name);
      return found == variables_.end() ? std::string() : found->second;
    };
    options_.disk_space = [](const std::string&) {
      return DiskSpace{int64_t{1} << 40, int64_t{1} << 40};
    };
    variables_["HOME"] = name;
    variables_["AWS_ENDPOINT_URL"] = server_.url();
    variables_["STORAGE_EMULATOR_HOST"] = server_.url();
    server_.Put("/corpora/c4", contents_);
  }

  std::shared_ptr<ObjectStore> Store() {
    absl::StatusOr<std::shared_ptr<ObjectStore>> store = ObjectStore::Open(options_);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }

  Source OpenObject(const std::string& url = "s3://corpora/c4") {
    absl::StatusOr<Source> source = Store()->OpenObject(url);
    EXPECT_TRUE(source.ok()) << source.status();
    return *std::move(source);
  }

  void ExpectRead(const Source& source, uint64_t offset, size_t bytes) {
    std::string out(bytes, '\0');
    const absl::Status status = source->Read(offset, bytes, &out[0]);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(out == contents_.substr(offset, bytes)) << offset;
  }

  void ExpectError(const absl::Status& status, absl::StatusCode code, const std::string& text) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), text)) << status;
    EXPECT_FALSE(absl::StrContains(status.message(), "SECRET")) << status;
  }

  // Of a read of all bytes.
  absl::Status Read(const Source& source) {
    std::string out(source->size(), '\0');
    return source->Read(0, out.size(), &out[0]);
  }

  void SetKey(const std::string& access_key) {
    variables_["AWS_ACCESS_KEY_ID"] = access_key;
    variables_["AWS_SECRET_ACCESS_KEY"] = "SECRET";
  }

  size_t requests() const { return server_.requests().size(); }

  ObjectServer server_;
  const std::string contents_ = Contents(10 * kBlockBytes + 7);
  std::map<std::string, std::string> variables_;
  ObjectStore::Options options_;
};

TEST_F(ObjectStoreTest, ReadsWhatIsThere) {
  const Source source = OpenObject();
  EXPECT_EQ(source->name(), "s3://corpora/c4");
  EXPECT_EQ(source->size(), contents_.size());
  ExpectRead(source, 0, contents_.size());
  for (const uint64_t offset : {0, 1, 999, 1000, 9999, 10006}) {
    for (const uint64_t bytes : {0, 1, 2, 1000, 1001, 2500}) {
      ExpectRead(source, offset, std::min<uint64_t>(bytes, contents_.size() - offset));
    }
  }
}

TEST_F(ObjectStoreTest, ABlockIsFetchedOnceForTheWholeNode) {
  ExpectRead(OpenObject(), 0, contents_.size());
  EXPECT_EQ(requests(), 1 + 11u);
  ExpectRead(OpenObject(), 0, contents_.size());
  EXPECT_EQ(requests(), 2 + 11u);  // Only the opening again.
  options_.cache_directory = "";
  ExpectRead(OpenObject(), 0, contents_.size());
  EXPECT_EQ(requests(), 3 + 22u);
}

TEST_F(ObjectStoreTest, ThreadsThatReadOneBlockFetchItOnce) {
  options_.cache_directory = "";
  const Source source = OpenObject();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { ExpectRead(source, 10, 100); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(requests(), 2u);
}

TEST_F(ObjectStoreTest, WhatIsExpectedIsFetchedAhead) {
  const Source source = OpenObject();
  EXPECT_TRUE(source->Expect(2500, 1000));  // Blocks 2 and 3.
  while (requests() < 3) absl::SleepFor(absl::Milliseconds(1));
  ExpectRead(source, 2000, 2000);
  EXPECT_EQ(requests(), 3u);
}

TEST_F(ObjectStoreTest, MoreIsNotExpectedThanMayWait) {
  options_.fetch_threads = 1;
  options_.cache_bytes = 16 * (kBlockBytes + 8);  // Two blocks may wait.
  const Source source = OpenObject();
  absl::Notification goes_on;
  server_.SetFault([&](const Request&, int) {
    goes_on.WaitForNotification();
    return std::nullopt;
  });
  // One is fetched and two wait, at most.
  EXPECT_FALSE(source->Expect(0, 10 * kBlockBytes));
  goes_on.Notify();
  while (!source->Expect(0, 10 * kBlockBytes)) absl::SleepFor(absl::Milliseconds(1));
  ExpectRead(source, 0, contents_.size());
  server_.SetFault(nullptr);
}

TEST_F(ObjectStoreTest, FaultsThatPassAreNotNoticed) {
  const std::vector<std::function<std::string(const std::string&)>> faults = {
      [](const std::string&) { return ""; },                                       // Cut off.
      [](const std::string& right) { return right.substr(0, right.size() / 2); },  // Truncated.
      [](const std::string&) { return ObjectServer::Error("503 Slow Down"); },
      [](const std::string&) {
        return ObjectServer::Error("500 Internal Server Error", "<Code>InternalError</Code>");
      },
      [](const std::string& right) {  // Another range than was asked for.
        const size_t at = right.find("bytes ");
        return right.substr(0, at) + "bytes 9" + right.substr(at + 6);
      },
  };
  for (const auto& fault : faults) {
    options_.cache_directory = "";
    const Source source = OpenObject();
    server_.SetFault([&](const Request& request, int n) -> std::optional<std::string> {
      if (n % 3 == 2) return std::nullopt;
      return fault(server_.AnswerTo(request));
    });
    ExpectRead(source, 0, contents_.size());
    server_.SetFault(nullptr);
  }
}

TEST_F(ObjectStoreTest, TriesEndWithinThePatience) {
  server_.SetFault([](const Request&, int) { return ObjectServer::Error("503 Slow Down"); });
  options_.patience = absl::Milliseconds(100);
  ExpectError(Store()->OpenObject("s3://corpora/c4").status(), absl::StatusCode::kDeadlineExceeded,
              "tries within 100ms have failed");
}

TEST_F(ObjectStoreTest, AServerThatIsNotThereIsNamed) {
  options_.patience = absl::Milliseconds(50);
  variables_["AWS_ENDPOINT_URL"] = "http://127.0.0.1:1";
  ExpectError(Store()->OpenObject("s3://corpora/c4").status(), absl::StatusCode::kDeadlineExceeded,
              "s3://corpora/c4");
}

TEST_F(ObjectStoreTest, AChangedObjectIsRefused) {
  const Source source = OpenObject();
  ExpectRead(source, 0, 10);
  server_.Put("/corpora/c4", Contents(contents_.size(), 1));
  ExpectRead(source, 500, 10);  // Of the version that was opened.
  ExpectError(Read(source), absl::StatusCode::kDataLoss, "has changed");
  // So is one whose server does not compare the condition.
  server_.SetFault([&](Request request, int) {
    request.headers.erase("if-match");
    return server_.AnswerTo(request);
  });
  ExpectError(Read(source), absl::StatusCode::kDataLoss, "has changed");
  server_.SetFault(nullptr);
  std::string out(10, '\0');
  ASSERT_TRUE(OpenObject()->Read(0, out.size(), &out[0]).ok());
  EXPECT_EQ(out, Contents(10, 1)) << "the cache has mixed up two versions";
}

TEST_F(ObjectStoreTest, OnlyWhatTheNodeAllowsIsRead) {
  ExpectError(Store()->OpenObject("s3://private/c4").status(), absl::StatusCode::kPermissionDenied,
              "s3://corpora/");
  ExpectError(Store()->OpenObject("s3://corpora/../private/c4").status(),
              absl::StatusCode::kInvalidArgument, "\"..\"");
  options_.allowed = {};
  ExpectError(Store()->OpenObject("s3://corpora/c4").status(), absl::StatusCode::kPermissionDenied,
              "--object-store");
  EXPECT_EQ(requests(), 0u);
}

TEST_F(ObjectStoreTest, SaysWhatIsNotThere) {
  ExpectError(Store()->OpenObject("s3://corpora/no").status(), absl::StatusCode::kNotFound,
              "s3://corpora/no");
  server_.Put("/corpora/empty", "");
  ExpectError(Store()->OpenObject("s3://corpora/empty").status(), absl::StatusCode::kDataLoss,
              "empty");
}

TEST_F(ObjectStoreTest, RequestsToS3AreSigned) {
  SetKey("AKIA");
  variables_["AWS_SESSION_TOKEN"] = "TOKEN";
  variables_["AWS_REGION"] = "eu-west-1";
  ExpectRead(OpenObject(), 0, 10);
  ASSERT_EQ(requests(), 2u);
  for (const Request& request : server_.requests()) {
    const std::string signature = HeaderOf(request, "authorization");
    EXPECT_TRUE(absl::StartsWith(signature, "AWS4-HMAC-SHA256 Credential=AKIA/")) << signature;
    EXPECT_TRUE(absl::StrContains(signature, "/eu-west-1/s3/aws4_request")) << signature;
    EXPECT_TRUE(
        absl::StrContains(signature, "x-amz-content-sha256;x-amz-date;x-amz-security-token"))
        << signature;
    EXPECT_EQ(HeaderOf(request, "x-amz-security-token"), "TOKEN");
  }
}

TEST_F(ObjectStoreTest, RenewedCredentialsAreTakenUp) {
  SetKey("OLD");
  const Source source = OpenObject();
  server_.SetFault([&](const Request& request, int) -> std::optional<std::string> {
    if (!absl::StrContains(HeaderOf(request, "authorization"), "OLD")) return std::nullopt;
    // As a program that renews the file would at this moment.
    SetKey("NEW");
    return ObjectServer::Error("400 Bad Request", "<Error><Code>ExpiredToken</Code></Error>");
  });
  ExpectRead(source, 0, contents_.size());
}

TEST_F(ObjectStoreTest, CredentialsThatAreRenewedTooLateAreWaitedFor) {
  SetKey("OLD");
  const Source source = OpenObject();
  int refused = 0;
  server_.SetFault([&](const Request& request, int) -> std::optional<std::string> {
    if (!absl::StrContains(HeaderOf(request, "authorization"), "OLD")) return std::nullopt;
    if (++refused == 3) SetKey("NEW");
    return ObjectServer::Error("400 Bad Request", "<Error><Code>ExpiredToken</Code></Error>");
  });
  ExpectRead(source, 0, contents_.size());
  EXPECT_EQ(refused, 3);
}

// As of a file that another program is just writing.
TEST_F(ObjectStoreTest, CredentialsThatAreHalfWrittenAreReadAgain) {
  SetKey("AKIA");
  const Variables whole = options_.variables;
  bool is_half = false;
  options_.variables = [&](const char* name) {
    const bool left_out = is_half && std::string(name) == "AWS_SECRET_ACCESS_KEY";
    if (!left_out) return whole(name);
    is_half = false;
    return std::string();
  };
  const Source source = OpenObject();
  is_half = true;
  ExpectRead(source, 0, contents_.size());
  EXPECT_FALSE(is_half);
  is_half = true;
  ExpectRead(OpenObject(), 0, contents_.size());
}

TEST_F(ObjectStoreTest, CredentialsThatStayOldEndTheRead) {
  SetKey("AKIA");
  options_.patience = absl::Milliseconds(100);
  const Source source = OpenObject();
  server_.SetFault([](const Request&, int) {
    return ObjectServer::Error("403 Forbidden", "<Error><Code>AccessDenied</Code></Error>");
  });
  ExpectError(Read(source), absl::StatusCode::kPermissionDenied, "AccessDenied");
}

TEST_F(ObjectStoreTest, OfALongErrorOnlyTheBeginningIsRead) {
  const std::string body(size_t{64} << 20, 'x');
  server_.SetFault([&](const Request&, int) { return ObjectServer::Error("404 Not Found", body); });
  ExpectError(Store()->OpenObject("s3://corpora/c4").status(), absl::StatusCode::kNotFound,
              "no such object");
  EXPECT_LT(server_.bytes_sent(), body.size() / 2);
  server_.SetFault(nullptr);
}

TEST_F(ObjectStoreTest, NoProxyLeadsToThisMachine) {
  options_.patience = absl::Milliseconds(100);
  ASSERT_EQ(::setenv("http_proxy", "http://127.0.0.1:1", 1), 0);
  ExpectRead(OpenObject(server_.url() + "/corpora/c4"), 0, contents_.size());
  ::unsetenv("http_proxy");
}

TEST_F(ObjectStoreTest, ARefusalEndsAtOnce) {
  SetKey("AKIA");
  server_.SetFault([](const Request&, int) {
    return ObjectServer::Error("403 Forbidden", "<Error><Code>AccessDenied</Code></Error>");
  });
  ExpectError(Store()->OpenObject("s3://corpora/c4").status(), absl::StatusCode::kPermissionDenied,
              "AccessDenied");
  EXPECT_EQ(requests(), 1u);
}

TEST_F(ObjectStoreTest, GoogleAndWebServersAreReadToo) {
  variables_["CLOUDSDK_AUTH_ACCESS_TOKEN"] = "SECRET";
  ExpectRead(OpenObject("gs://corpora/c4"), 0, contents_.size());
  EXPECT_EQ(HeaderOf(server_.requests()[0], "authorization"), "Bearer SECRET");
  ExpectRead(OpenObject(server_.url() + "/corpora/c4"), 0, contents_.size());
  EXPECT_EQ(HeaderOf(server_.requests().back(), "authorization"), "");
}

TEST_F(ObjectStoreTest, TheUserOfAHostIsSentToNoOther) {
  ::signal(SIGPIPE, SIG_IGN);
  const std::string home = variables_["HOME"];
  const TlsFiles files = WriteIdentity(home, TestAuthority(), ControllerOnLoopback());
  variables_["AWS_CA_BUNDLE"] = files.ca;
  std::ofstream(home + "/.netrc") << "machine 127.0.0.1 login reader password SECRET\n";
  ASSERT_EQ(::setenv("HOME", home.c_str(), 1), 0);
  const std::shared_ptr<SSL_CTX> context = *ServerContext(files).Get();
  ObjectServer first(context);
  ObjectServer second(context);  // By its port another one.
  second.Put("/corpora/c4", contents_);
  const auto moved = [](const std::string& to) {
    return absl::StrCat("HTTP/1.1 302 Found\r\nConnection: close\r\nContent-Length: 0\r\n",
                        "Location: ", to, "\r\n\r\n");
  };
  first.SetFault([&](const Request& request, int) {
    return moved(request.path == "/corpora/c4" ? "/moved" : second.url() + "/corpora/c4");
  });
  options_.allowed = {first.url()};
  ExpectRead(OpenObject(first.url() + "/corpora/c4"), 0, 10);
  EXPECT_EQ(first.requests().size(), 4u);
  for (const Request& request : first.requests()) {
    EXPECT_TRUE(absl::StartsWith(HeaderOf(request, "authorization"), "Basic ")) << request.path;
  }
  EXPECT_EQ(second.requests().size(), 2u);
  for (const Request& request : second.requests()) {
    EXPECT_EQ(HeaderOf(request, "authorization"), "");
  }
  // To http it does not lead, nor round and round.
  for (const std::string& to : {server_.url() + "/corpora/c4", std::string("/corpora/c4")}) {
    first.SetFault([&](const Request&, int) { return moved(to); });
    ExpectError(Store()->OpenObject(first.url() + "/corpora/c4").status(),
                absl::StatusCode::kFailedPrecondition, "HTTP 302");
  }
  EXPECT_EQ(requests(), 0u);
  EXPECT_EQ(first.requests().size(), 4u + 1 + 6);
}

TEST_F(ObjectStoreTest, ACacheThatCannotBeUsedIsNamed) {
  options_.cache_directory = "/nonexistent/objects";
  ExpectError(ObjectStore::Open(options_).status(), absl::StatusCode::kFailedPrecondition,
              "/nonexistent/objects");
}

TEST_F(ObjectStoreTest, ReadsOnWhenTheCacheHasNoRoom) {
  options_.cache_bytes = kBlockBytes / 2;
  ExpectRead(OpenObject(), 0, contents_.size());
}

TEST_F(ObjectStoreTest, TooLittleMemoryIsAnErrorOfTheRead) {
  std::atomic<bool> is_short{false};
  options_.variables = [&, all = options_.variables](const char* name) {
    if (is_short) throw std::bad_alloc();
    return all(name);
  };
  const Source source = OpenObject();
  is_short = true;
  ExpectError(Read(source), absl::StatusCode::kResourceExhausted, "s3://corpora/c4");
  is_short = false;
  ExpectRead(source, 0, contents_.size());
}

TEST_F(ObjectStoreTest, ClosingEndsWhatIsUnderWay) {
  Source source = OpenObject();
  server_.SetFault([](const Request&, int) { return ObjectServer::Error("503 Slow Down"); });
  EXPECT_TRUE(source->Expect(0, kBlockBytes));
  while (requests() < 3) absl::SleepFor(absl::Milliseconds(1));
  source.reset();  // Within the patience of two minutes, which the test would not wait for.
}

TEST_F(ObjectStoreTest, CountsWhatIsFetchedAndWaitedFor) {
  const std::shared_ptr<ObjectStore> store = Store();
  server_.SetFault([](const Request&, int n) -> std::optional<std::string> {
    if (n == 1) return ObjectServer::Error("503 Slow Down");
    return std::nullopt;
  });
  const absl::StatusOr<Source> source = store->OpenObject("s3://corpora/c4");
  ASSERT_TRUE(source.ok()) << source.status();
  ExpectRead(*source, 0, contents_.size());
  constexpr int64_t kFirstBytes = 64;  // To open it.
  const auto all = static_cast<int64_t>(contents_.size());
  ObjectFigures figures = store->counters().figures();
  EXPECT_EQ(figures.fetched_bytes, kFirstBytes + all);
  EXPECT_EQ(figures.retries, 1);
  EXPECT_EQ(figures.cached_reads, 0);
  EXPECT_EQ(figures.waited_reads, 11);
  EXPECT_GT(figures.wait_s, 0);
  ExpectRead(*source, kBlockBytes - 1, 2);
  figures = store->counters().figures();
  EXPECT_EQ(figures.fetched_bytes, kFirstBytes + all);
  EXPECT_EQ(figures.cached_reads, 2);
  EXPECT_EQ(figures.waited_reads, 11);
}

}  // namespace
}  // namespace paceline
