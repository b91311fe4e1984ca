"""Objects are read from moto's S3, which checks signatures with botocore, and through faults."""

import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

import boto3
import moto.settings
from moto.server import ThreadedMotoServer

sys.path.insert(0, os.path.abspath("tests/objects"))
from faulty_proxy import Proxy  # noqa: E402

os.environ["no_proxy"] = "127.0.0.1"  # For boto3, whatever the machine has.
READ_OBJECT = os.path.abspath(sys.argv[1])
BLOCK = 100_000
CONTENTS = random.Random(1).randbytes(10 * BLOCK + 7)
KEY = "c4/en.tokens"
URL = f"s3://corpora/{KEY}"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class MotoTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        cls.server.start()
        cls.host, cls.port = cls.server.get_host_and_port()
        cls.endpoint = f"http://{cls.host}:{cls.port}"
        cls.s3 = cls.client("s3", "setup", "setup")
        cls.s3.create_bucket(Bucket="corpora")
        iam = cls.client("iam", "setup", "setup")
        cls.keys = {}
        for user, actions in [("reader", "s3:GetObject"), ("stranger", "s3:ListBucket")]:
            iam.create_user(UserName=user)
            iam.put_user_policy(UserName=user, PolicyName="p", PolicyDocument=json.dumps({
                "Version": "2012-10-17",
                "Statement": [{"Effect": "Allow", "Action": actions, "Resource": "*"}]}))
            key = iam.create_access_key(UserName=user)["AccessKey"]
            cls.keys[user] = key["AccessKeyId"], key["SecretAccessKey"]

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    @classmethod
    def client(cls, service, key, secret):
        return boto3.client(service, endpoint_url=cls.endpoint, region_name="us-east-1",
                            aws_access_key_id=key, aws_secret_access_key=secret)

    def setUp(self):
        self.put(CONTENTS)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        # From now on every request is checked.
        moto.settings.INITIAL_NO_AUTH_ACTION_COUNT = 0

    def put(self, contents, key=KEY):
        moto.settings.INITIAL_NO_AUTH_ACTION_COUNT = float("inf")
        self.s3.put_object(Bucket="corpora", Key=key, Body=contents)
        moto.settings.INITIAL_NO_AUTH_ACTION_COUNT = 0

    def start(self, url=URL, user="reader", endpoint=None, secret=None, patience=60):
        key, own_secret = self.keys[user]
        environment = {
            "HOME": self.folder, "AWS_ENDPOINT_URL": endpoint or self.endpoint,
            "AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret or own_secret}
        environment.update({name: value for name, value in os.environ.items()
                            if name.startswith(("LD_", "ASAN_", "UBSAN_", "LSAN_"))})
        process = subprocess.Popen(
            [READ_OBJECT, "--url", url, "--allow", "s3://corpora/", "--cache",
             self.folder + "/cache", "--cache-bytes", "100000000", "--block-bytes", str(BLOCK),
             "--patience", str(patience)],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.kill, process)
        return process

    @staticmethod
    def kill(process):
        """Of a test that has failed while it still ran."""
        process.kill()
        process.communicate()

    def end(self, process):
        out, error = process.communicate(timeout=120)
        return process.returncode, out.strip(), error

    def assert_read(self, process, contents=CONTENTS):
        code, out, error = self.end(process)
        self.assertEqual(code, 0, error)
        self.assertEqual(out, sha256(contents))

    def assert_fails(self, process, *texts):
        code, _, error = self.end(process)
        self.assertEqual(code, 1, error)
        for text in texts:
            self.assertIn(text, error)
        for _, secret in self.keys.values():
            self.assertNotIn(secret, error)

    def test_a_signed_object_is_read_and_kept(self):
        with Proxy(self.host, self.port) as proxy:
            self.assert_read(self.start(endpoint=proxy.url))
            self.assertEqual(len(proxy.requests), 1 + 11)
            self.assert_read(self.start(endpoint=proxy.url))
            self.assertEqual(len(proxy.requests), 2 + 11)

    def test_a_key_may_have_any_characters(self):
        key = "c4/en 1+ä?&=%2F.tokens"
        self.put(CONTENTS, key)
        # moto compares signatures of keys that it has decoded, and so does not know them again.
        moto.settings.INITIAL_NO_AUTH_ACTION_COUNT = float("inf")
        self.assert_read(self.start(f"s3://corpora/{key}"))

    def test_processes_of_a_node_fetch_each_block_once(self):
        with Proxy(self.host, self.port) as proxy:
            processes = [self.start(endpoint=proxy.url) for _ in range(4)]
            for process in processes:
                self.assert_read(process)
            self.assertEqual(len(proxy.requests), 4 + 11)

    def test_a_wrong_secret_is_named_and_not_shown(self):
        self.assert_fails(self.start(secret="not-the-secret"), "SignatureDoesNotMatch",
                          "credentials of the worker")

    def test_a_user_without_the_right_is_refused(self):
        self.assert_fails(self.start(user="stranger"), "AccessDenied", "right to read objects")

    def test_what_is_not_there_is_named(self):
        self.assert_fails(self.start("s3://corpora/none"), "NoSuchKey", "s3://corpora/none")

    def test_what_the_node_does_not_allow_is_not_asked_for(self):
        with Proxy(self.host, self.port) as proxy:
            self.assert_fails(self.start("s3://private/k", endpoint=proxy.url), "s3://corpora/")
            self.assertEqual(proxy.requests, [])

    def test_faults_of_two_in_three_answers_change_nothing(self):
        def cut(_number, handler, status, headers, body):
            handler.send(status, headers, body[:len(body) // 2], announced=len(body))

        def busy(_number, handler, _status, _headers, _body):
            handler.send(503, [], b"<Error><Code>SlowDown</Code></Error>")

        def nothing(*_):
            pass

        for fault in (cut, busy, nothing):
            def spoil(number, handler, *answer, fault=fault):
                if number % 3 == 2:
                    return False
                fault(number, handler, *answer)
                return True

            with self.subTest(fault.__name__), Proxy(self.host, self.port, spoil) as proxy:
                self.put(CONTENTS + fault.__name__.encode())  # Of which nothing is kept yet.
                self.assert_read(self.start(endpoint=proxy.url),
                                 CONTENTS + fault.__name__.encode())

    def test_an_object_that_changes_is_refused(self):
        def change(number, *_):
            if number == 5:
                self.put(bytes(len(CONTENTS)))
            return False

        with Proxy(self.host, self.port, change) as proxy:
            self.assert_fails(self.start(endpoint=proxy.url), "has changed", "DATA_LOSS")
        self.assert_read(self.start(), bytes(len(CONTENTS)))

    def test_a_store_that_stays_away_ends_the_patience(self):
        def busy(_number, handler, *_):
            handler.send(503, [], b"<Error><Code>SlowDown</Code></Error>")
            return True

        with Proxy(self.host, self.port, busy) as proxy:
            self.assert_fails(self.start(endpoint=proxy.url, patience=1), "SlowDown", "have failed")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
