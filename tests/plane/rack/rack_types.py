# SPDX-License-Identifier: MIT
"""The messages of the rack protocol, section 5, and its endpoints."""
from beast2 import BLOB, BOOLEAN, DATETIME, INTEGER, NULL, STRING, array, dict_of, option, struct, variant

HOST_INFO = struct(label=STRING, tiers=array(STRING), capacity=INTEGER, agentVersion=STRING)
ENROLL_REQUEST = struct(enrollmentToken=STRING, hostInfo=HOST_INFO)
ENROLL_RESPONSE = struct(rackId=STRING, rackToken=STRING)
LEASE_REF = struct(repo=STRING, leaseId=STRING)
LEASE_REQUEST = struct(tiers=array(STRING), bootId=STRING)
LEASE_GRANT = struct(repo=STRING, workspace=STRING, leaseId=STRING, tier=STRING, computeSize=STRING, eventJson=STRING,
                     visibilityDeadline=DATETIME)
WATCH_REQUEST = struct(leases=array(LEASE_REF), bootId=option(STRING))
WATCH_RESPONSE = struct(stop=array(LEASE_REF))
HEARTBEAT_REQUEST = struct(healthy=BOOLEAN, freeCapacity=INTEGER, runningLeases=array(LEASE_REF), agentVersion=STRING,
                           bootId=STRING, cacheBytes=INTEGER)
HEARTBEAT_RESPONSE = struct(stop=array(LEASE_REF), rotatedToken=option(STRING), pendingApproval=BOOLEAN)
OBJECT_SIZE = struct(hash=STRING, size=INTEGER)
OBJECT_COMMIT = struct(hash=STRING, size=INTEGER, version=STRING)
STORAGE_REQUEST = struct(repo=STRING, leaseId=STRING, need=array(STRING), output=option(OBJECT_SIZE),
                         envManifest=option(STRING), outputs=array(OBJECT_SIZE), commits=array(OBJECT_COMMIT))
OBJECT_DESCRIPTOR = variant(inline=struct(hash=STRING, data=BLOB), url=struct(hash=STRING, url=STRING))
ENV_LAYER = struct(digest=STRING, url=STRING, sizeBytes=INTEGER)
WRITE_TARGET = variant(held=NULL, put=struct(url=STRING, headers=dict_of(STRING, STRING)))
STORAGE_RESPONSE = struct(
    objects=array(OBJECT_DESCRIPTOR), output=option(struct(url=STRING, uploadId=STRING)),
    env=option(struct(manifestJson=STRING, layers=array(ENV_LAYER))),
    targets=array(struct(hash=STRING, target=WRITE_TARGET)),
    committed=array(struct(hash=STRING, committed=BOOLEAN)))
LOG_CHUNK = struct(stream=variant(stderr=NULL, stdout=NULL), data=STRING)
LOGS_REQUEST = struct(repo=STRING, leaseId=STRING, chunks=array(LOG_CHUNK))
COMPLETE_REQUEST = struct(repo=STRING, leaseId=STRING, resultJson=STRING, outputUploadId=option(STRING),
                          inlineOutput=option(BLOB))
COMPLETE_RESPONSE = struct(disposition=variant(discarded=NULL, idempotent=NULL, recorded=NULL))
CLOSURE_LIST = array(STRING)

_LOCK_HOLDER = struct(pid=INTEGER, acquiredAt=STRING, bootId=option(STRING), command=option(STRING))
_ONE = {name: struct(**{name: STRING}) for name in ("message", "task", "hash", "reason", "path", "repo", "workspace")}
ERROR = variant(
    dataflow_aborted=NULL, dataflow_error=_ONE["message"], dataset_not_found=struct(workspace=STRING, path=STRING),
    dataset_type_mismatch=struct(workspace=STRING, path=STRING, message=STRING), execution_not_found=_ONE["task"],
    internal=_ONE["message"], invalid_name=struct(kind=STRING, name=STRING, message=STRING),
    object_not_found=_ONE["hash"], package_exists=struct(packageName=STRING, version=STRING),
    package_invalid=_ONE["reason"], package_not_found=struct(packageName=STRING, version=option(STRING)),
    permission_denied=_ONE["path"], repository_not_found=_ONE["repo"], task_not_found=_ONE["task"],
    workspace_exists=_ONE["workspace"],
    workspace_locked=struct(workspace=STRING, holder=variant(known=_LOCK_HOLDER, unknown=NULL)),
    workspace_not_deployed=_ONE["workspace"], workspace_not_found=_ONE["workspace"])


def response(success):
    return variant(error=ERROR, success=success)


# name of the path: (request, T)
ENDPOINTS = {
    "enroll": (ENROLL_REQUEST, ENROLL_RESPONSE),
    "lease": (LEASE_REQUEST, LEASE_GRANT),
    "lease/watch": (WATCH_REQUEST, WATCH_RESPONSE),
    "lease/extend": (LEASE_REF, BOOLEAN),
    "heartbeat": (HEARTBEAT_REQUEST, HEARTBEAT_RESPONSE),
    "storage": (STORAGE_REQUEST, STORAGE_RESPONSE),
    "logs": (LOGS_REQUEST, BOOLEAN),
    "complete": (COMPLETE_REQUEST, COMPLETE_RESPONSE),
}
