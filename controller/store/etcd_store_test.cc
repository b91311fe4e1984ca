// What EtcdStore guarantees beyond StateStore: fencing, single execution, a journal, TLS.
#include "controller/store/etcd_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/identity/principal.h"
#include "common/tls/certificate_authority.h"
#include "common/tls/private_file.h"
#include "common/tls/testing/test_identity.h"
#include "controller/store/testing/leader_key.h"
#include "tests/etcd/etcd_cluster.h"
#include "tests/etcd/tcp_proxy.h"
#include "tests/integration/new_folder.h"
#include "tests/integration/process.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

EtcdCluster& Etcd() {
  static EtcdCluster etcd;
  return etcd;
}

class EtcdStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<EtcdStore> Open(int64_t term) {
    return EtcdStore::Open(client_.get(), prefix_, term).value();
  }
  void Put(const std::string& key, const std::string& value) {
    etcdserverpb::TxnRequest request;
    etcdserverpb::PutRequest& put = *request.add_success()->mutable_request_put();
    put.set_key(prefix_ + key);
    put.set_value(value);
    ASSERT_TRUE(client_->Txn(request, {}).ok());
  }
  size_t KeysBelow(const std::string& prefix) {
    etcdserverpb::RangeRequest request;
    request.set_key(prefix_ + prefix);
    request.set_range_end(prefix_ + prefix + "\xff");
    return static_cast<size_t>(client_->Range(request, {}).value().kvs_size());
  }

  const std::string prefix_ =
      absl::StrCat("/", ::testing::UnitTest::GetInstance()->current_test_info()->name());
  const std::unique_ptr<EtcdClient> client_ = Etcd().Client();
  const int64_t term_ = TakeLeadership(*client_, prefix_);
};

TEST_F(EtcdStoreTest, TheNextLeaderFindsWhatWasCommitted) {
  ASSERT_TRUE(Open(term_)->Commit({{{"a", "1"}}, {}}).ok());
  EXPECT_THAT(*Open(TakeLeadership(*client_, prefix_))->Load(""), ElementsAre(Pair("a", "1")));
}

TEST_F(EtcdStoreTest, ADeposedLeaderIsRefusedByEtcd) {
  const auto old = Open(term_);
  ASSERT_TRUE(old->Commit({{{"a", "1"}}, {}}).ok());
  const auto young = Open(TakeLeadership(*client_, prefix_));
  EXPECT_EQ(old->Commit({{{"a", "old"}}, {}}).code(), absl::StatusCode::kAborted);
  WriteBatch large;
  large.puts["large"] = std::string(3 << 20, 'x');
  EXPECT_EQ(old->Commit(large).code(), absl::StatusCode::kAborted);
  EXPECT_THAT(*young->Load(""), ElementsAre(Pair("a", "1")));
  EXPECT_EQ(
      EtcdStore::Open(client_.get(), prefix_, term_).value()->Commit({{{"b", ""}}, {}}).code(),
      absl::StatusCode::kAborted);
}

TEST_F(EtcdStoreTest, ALateRepetitionDoesNotUndoWhatFollowed) {
  // Plays a transaction that was sent before the others.
  const auto late = Open(term_);
  const auto store = Open(term_);
  for (const char* value : {"1", "2", "3"}) {
    ASSERT_TRUE(store->Commit({{{"a", value}}, {}}).ok());
  }
  EXPECT_EQ(late->Commit({{{"a", "late"}}, {}}).code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(*store->Load(""), ElementsAre(Pair("a", "3")));
}

TEST_F(EtcdStoreTest, ALostAnswerIsNoFailure) {
  TcpProxy wire(Etcd().endpoints()[0]);
  const auto client = EtcdClient::Create({{wire.address(), Etcd().endpoints()[0]}, ""}).value();
  const auto store =
      EtcdStore::Open(client.get(), prefix_, term_, {absl::Seconds(20), absl::Seconds(1)}).value();
  ASSERT_TRUE(store->Commit({{{"a", "1"}}, {}}).ok());
  wire.CutAnswers();
  ASSERT_TRUE(store->Commit({{{"a", "2"}}, {}}).ok());
  ASSERT_TRUE(store->Commit({{{"a", "3"}}, {}}).ok());
  EXPECT_THAT(*store->Load(""), ElementsAre(Pair("a", "3")));
}

TEST_F(EtcdStoreTest, AJournalThatIsCompleteIsCarriedOut) {
  ASSERT_TRUE(Open(term_)->Commit({{{"a", "1"}, {"b", "1"}}, {}}).ok());
  etcdserverpb::TxnRequest batch;
  etcdserverpb::PutRequest& put = *batch.add_success()->mutable_request_put();
  put.set_key(prefix_ + "/state/a");
  put.set_value("2");
  batch.add_success()->mutable_request_delete_range()->set_key(prefix_ + "/state/b");
  const std::string whole = batch.SerializeAsString();
  Put("/journal/00000000", whole.substr(0, 5));
  Put("/journal/00000001", whole.substr(5));
  Put("/journal/complete", "2");
  EXPECT_THAT(*Open(term_)->Load(""), ElementsAre(Pair("a", "2")));
  EXPECT_EQ(KeysBelow("/journal/"), 0);
}

TEST_F(EtcdStoreTest, AJournalThatIsNotCompleteIsForgotten) {
  Put("/journal/00000000", "part");
  EXPECT_THAT(*Open(term_)->Load(""), IsEmpty());
  EXPECT_EQ(KeysBelow("/journal/"), 0);
}

TEST_F(EtcdStoreTest, ADamagedJournalIsNamedAndLeftAlone) {
  Put("/journal/00000000", "\xff");
  Put("/journal/complete", "2");
  const absl::Status status = EtcdStore::Open(client_.get(), prefix_, term_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/journal/"));
  EXPECT_EQ(KeysBelow("/journal/"), 2);
}

TEST_F(EtcdStoreTest, PartsOfLargeValuesGoWithThem) {
  const auto store = Open(term_);
  ASSERT_TRUE(store->Commit({{{"a", std::string(2 << 20, 'x')}}, {}}).ok());
  EXPECT_EQ(KeysBelow("/more/"), 3);
  // Another leader knows of them, too.
  const auto next = Open(TakeLeadership(*client_, prefix_));
  ASSERT_TRUE(next->Commit({{{"a", std::string(1 << 20, 'y')}}, {}}).ok());
  EXPECT_EQ(KeysBelow("/more/"), 1);
  EXPECT_EQ(next->Load("")->at("a"), std::string(1 << 20, 'y'));
  ASSERT_TRUE(next->Commit({{}, {"a"}}).ok());
  EXPECT_EQ(KeysBelow("/more/"), 0);
}

TEST_F(EtcdStoreTest, ANewerFormatIsRefused) {
  Put("/format", "99");
  const absl::Status status = EtcdStore::Open(client_.get(), prefix_, term_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(status.message()), HasSubstr("format 99"));
}

TEST_F(EtcdStoreTest, EtcdThatIsAwayIsNamed) {
  const auto client = EtcdClient::Create({{"127.0.0.1:1"}, ""}).value();
  etcdserverpb::RangeRequest request;
  request.set_key("a");
  const auto response = client->Range(request, {absl::Milliseconds(300), absl::Milliseconds(100)});
  EXPECT_EQ(response.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(response.status().message()), HasSubstr("etcd at 127.0.0.1:1"));
  EXPECT_EQ(EtcdClient::Create({{"http://127.0.0.1:1"}, ""}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(EtcdClient::Create({{"127.0.0.1:1"}, "/nowhere"}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(EtcdStoreTest, AWatchThatBreaksIsToldFromOneThatSawNothing) {
  const std::string key = EtcdLeaderKey(prefix_);
  EXPECT_TRUE(client_->WaitForDeletion(key, term_, absl::Milliseconds(200)));
  TakeLeadership(*client_, prefix_);
  EXPECT_TRUE(client_->WaitForDeletion(key, term_, absl::Seconds(30))) << "it was deleted since";
  const auto away = EtcdClient::Create({{"127.0.0.1:1"}, ""}).value();
  EXPECT_FALSE(away->WaitForDeletion(key, term_, absl::Seconds(30)));
}

TEST(EtcdSpaceTest, AnEtcdThatIsFullIsNamedAndLosesNothing) {
  const EtcdCluster etcd(1, "", {"--quota-backend-bytes=8388608"});
  const auto client = etcd.Client();
  const auto store =
      EtcdStore::Open(client.get(), "/full", TakeLeadership(*client, "/full")).value();
  constexpr size_t kMany = 100;  // Several times the quota.
  size_t stored = 0;
  absl::Status status;
  while (status.ok() && stored < kMany) {
    status = store->Commit({{{absl::StrCat("job/", stored), std::string(400 << 10, 'x')}}, {}});
    if (status.ok()) ++stored;
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("etcd at " + etcd.endpoints()[0]));
  EXPECT_THAT(std::string(status.message()), HasSubstr("space"));
  EXPECT_GT(stored, 0u);
  // What was acknowledged is there; the refused batch may be.
  const size_t found = store->Load("")->size();
  EXPECT_GE(found, stored);
  EXPECT_LE(found, stored + 1);
  EXPECT_EQ(store->Commit({{{"job/0", "small"}}, {}}).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(store->Load("job/0")->at("job/0").size(), size_t{400} << 10);
}

TEST(EtcdTlsTest, TalksToAnEtcdThatWantsCertificates) {
  std::string folder = std::string(std::getenv("TEST_TMPDIR")) + "/tlsXXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  // One self-signed certificate for the server and its clients.
  const Finished made = RunToEnd({"/usr/bin/openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                                  "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj",
                                  "/CN=etcd", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
                                  folder + "/key.pem", "-out", folder + "/cert.pem"});
  ASSERT_EQ(made.exit_code, 0) << made.output;
  ASSERT_EQ(RunToEnd({"/usr/bin/cp", folder + "/cert.pem", folder + "/ca.pem"}).exit_code, 0);
  const EtcdCluster etcd(1, folder);
  const auto client = etcd.Client();
  const auto store = EtcdStore::Open(client.get(), "/tls", TakeLeadership(*client, "/tls")).value();
  ASSERT_TRUE(store->Commit({{{"a", "1"}}, {}}).ok());
  EXPECT_THAT(*store->Load(""), ElementsAre(Pair("a", "1")));
  // Without a certificate nobody is answered.
  const auto stranger = EtcdClient::Create({etcd.endpoints(), ""}).value();
  etcdserverpb::RangeRequest request;
  request.set_key("a");
  EXPECT_FALSE(stranger->Range(request, {absl::Seconds(1), absl::Seconds(1)}).ok());
  // A controller does not start with a key that everybody can read.
  ASSERT_EQ(RunToEnd({"/usr/bin/chmod", "644", folder + "/key.pem"}).exit_code, 0);
  EXPECT_EQ(EtcdClient::Create({etcd.endpoints(), folder}).status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST(EtcdTlsTest, ANewCertificateIsUsedWithoutARestart) {
  const std::string folder = NewFolder();
  const CertificateAuthority first = TestAuthority();
  const CertificateAuthority second = TestAuthority();
  const CertificateAuthority::Grant own = {{Role::kAdmin, "c1"}, {}, absl::Hours(1)};
  WriteIdentity(folder + "/etcd", first, ControllerOnLoopback());
  WriteIdentity(folder + "/client", first, own);
  EtcdCluster etcd(1, folder + "/etcd");
  const auto client = EtcdClient::Create({etcd.endpoints(), folder + "/client"}).value();
  etcdserverpb::RangeRequest request;
  request.set_key("a");
  ASSERT_TRUE(client->Range(request, {}).ok());
  // The key changes, too. The open connection continues.
  std::string key;
  const std::string certificate = TestCertificate(second, own, absl::Now(), &key);
  ASSERT_TRUE(WritePrivate(folder + "/client/key.pem", key).ok());
  ASSERT_TRUE(WritePublic(folder + "/client/cert.pem", certificate).ok());
  EXPECT_TRUE(client->Range(request, {}).ok());
  // From now on etcd accepts nobody who shows the old certificate.
  ASSERT_TRUE(WritePublic(folder + "/etcd/ca.pem", second.certificate_pem()).ok());
  etcd.Kill(0);
  etcd.Start(0);
  EXPECT_TRUE(Eventually([&] { return client->Range(request, {}).ok(); }));
  WriteIdentity(folder + "/old", first, own);
  const auto stranger = EtcdClient::Create({etcd.endpoints(), folder + "/old"}).value();
  EXPECT_FALSE(stranger->Range(request, {absl::Seconds(1), absl::Seconds(1)}).ok());
}

}  // namespace
}  // namespace paceline
